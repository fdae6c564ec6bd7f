//! What the rules of a sink leave of the groups that it gets, and what they find in messages: each gets a lens, unless all of it is shown as
//! it is.
//!
//! ```text
//! lane  | group | group | group || group | group ..
//!        rules of then            \ the lane ended here when the sink got other rules: they hold from here on
//! ```
//!
//! A destination or a cursor that has a part of a group counts the messages that the sink has seen of it. So a group has the same rules
//! however often it is read, also after a start with other rules, or none: the rules of then are kept beside the cursor until it has
//! passed what they hold for.
//!
//! Invariant: the rules are on disk before a group that they hold for is.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bbq_rules::{Attributes, FieldSet, Message, Rules};
use bbq_spool::{
    Cursor, CursorStore, Entry, Epoch, Group, GroupCursor, Hidden, LanePlace, Lens, ParseFields, Redact,
    Scratch, Spool, SpoolError,
};
use bbq_wire::SourceKind;
use bbq_wire::batch::Output;

/// Most rules that a sink has at a time: those of so many changes while it delivers nothing. Each may be as long as a configuration.
const EPOCHS_MAX: usize = 16;

/// See the module.
pub(crate) struct Lenses {
    /// In their order; `None` if there are none in an epoch.
    epochs: Vec<(Epoch, Option<Rules>)>,
    unpacked: Scratch,
    memory: bbq_rules::Scratch,
}

/// A group as a sink sees it.
pub(crate) struct Seen {
    pub(crate) group: Group,
    /// Messages that the rules leave out.
    pub(crate) filtered: u64,
    /// Nothing else can be read.
    pub(crate) is_empty: bool,
}

impl Seen {
    /// All of the group.
    pub(crate) fn all(group: Group) -> Seen {
        Seen { group, filtered: 0, is_empty: false }
    }

    /// The group through lenses, if the sink has any.
    pub(crate) fn through(lenses: Option<&mut Lenses>, group: Group) -> Seen {
        match lenses {
            Some(lenses) => lenses.look(group),
            None => Seen::all(group),
        }
    }
}

/// Changes messages by the rules.
struct ByRules(Rules);

impl Redact for ByRules {
    fn redact(&self, source: SourceKind, record: &[u8], out: &mut Vec<u8>) -> bool {
        self.0.redact(source, record, out)
    }
}

impl Lenses {
    /// The lenses of a sink that has these rules now, and its cursor; `None` if it shows everything. Other rules than those of the last
    /// start hold from the ends of the lanes on, before anything new is received. A destination that `takes_all` can have no lenses: it knows
    /// messages by their numbers, and batches by their checksums.
    ///
    /// # Errors
    /// The rules of then cannot be read or written, there are too many, or the destination can have none.
    pub(crate) fn open(
        store: &CursorStore,
        spool: &Spool,
        cursor: Option<&Cursor>,
        rules: Option<&Rules>,
        takes_all: bool,
    ) -> Result<Option<Lenses>, SpoolError> {
        let text = rules.map(Rules::text).unwrap_or_default();
        let stored = store.epochs()?;
        if stored.is_none() && text.is_empty() {
            return Ok(None);
        }
        let epochs = next_epochs(stored.as_deref(), cursor, &spool.ends(), text).map_err(about(store))?;
        if stored.as_ref() != Some(&epochs) {
            store.set_epochs(&epochs)?;
        }
        let compiled = epochs.into_iter().map(|epoch| {
            let rules = match epoch.text.as_str() {
                "" => None,
                text => Some(Rules::parse_text(text).map_err(|why| {
                    format!(
                        "messages in the spool have the rules {text:?} of an earlier configuration, which this version cannot read ({why}); \
                         start the earlier version until the sink has delivered them"
                    )
                })?),
            };
            Ok((epoch, rules))
        });
        let epochs: Vec<(Epoch, Option<Rules>)> =
            compiled.collect::<Result<_, String>>().map_err(about(store))?;
        let shows_all = epochs.iter().all(|(_, rules)| rules.is_none());
        if !shows_all && takes_all {
            let why = "messages in the spool have rules of this sink's earlier SPEC, and a next bbq server must get all of a stream; give the \
                       sink another name, or start it with the earlier SPEC until it has delivered them";
            return Err(about(store)(why.to_owned()));
        }
        Ok((!shows_all).then(|| Lenses::of(epochs)))
    }

    /// The lenses of messages that all rules were applied to already; `None` if nothing is found in them.
    pub(crate) fn of_letters(rules: Option<&Rules>) -> Option<Lenses> {
        let rules = rules.and_then(Rules::parse_alone)?;
        Some(Lenses::of(vec![(Epoch::default(), Some(rules))]))
    }

    fn of(epochs: Vec<(Epoch, Option<Rules>)>) -> Lenses {
        Lenses { epochs, unpacked: Scratch::default(), memory: bbq_rules::Scratch::default() }
    }

    /// The same lenses for another reader.
    pub(crate) fn another(&self) -> Lenses {
        Lenses::of(self.epochs.clone())
    }

    /// How many times an expression has failed for a message.
    pub(crate) fn failed(&self) -> u64 {
        self.epochs.iter().flat_map(|(_, rules)| rules).map(Rules::failed).fold(0, u64::saturating_add)
    }

    /// Gives the group its lens.
    pub(crate) fn look(&mut self, group: Group) -> Seen {
        let Lenses { epochs, unpacked, memory } = self;
        let Some(rules) = rules_of(epochs, group.until()) else { return Seen::all(group) };
        let mut hidden = Hidden::default();
        if rules.leaves_out() {
            let Ok(()) = group.try_for_each(&mut GroupCursor::default(), unpacked, |entry| {
                hide(rules, entry, memory, &mut hidden);
                Ok::<(), Infallible>(())
            });
        }
        let filtered = hidden.hidden();
        let is_empty = filtered > 0 && filtered == hidden.records();
        let redact = rules.redacts().then(|| Arc::new(ByRules(rules.clone())) as Arc<dyn Redact>);
        let parser = rules.parses().then(|| Arc::new(rules.clone()) as Arc<dyn ParseFields>);
        let group = match filtered > 0 || redact.is_some() || parser.is_some() {
            true => group.with_lens(Lens::new(hidden, redact).with_parser(parser)),
            false => group,
        };
        Seen { group, filtered, is_empty }
    }

    /// Gives back the memory of a large batch.
    pub(crate) fn trim(&mut self) {
        self.unpacked.trim();
    }
}

/// The rules of the group that ends here.
fn rules_of(epochs: &[(Epoch, Option<Rules>)], until: LanePlace) -> Option<&Rules> {
    // What was before the first is behind the cursor, unless the cursor was lost.
    let has_begun = |(epoch, _): &&(Epoch, Option<Rules>)| epoch.has_begun(until.lane, until.position);
    let of_group = epochs.iter().rev().find(has_begun).or_else(|| epochs.first());
    of_group.and_then(|(_, rules)| rules.as_ref())
}

/// Notes which messages of a batch the rules leave out.
fn hide(rules: &Rules, entry: &Entry<'_>, memory: &mut bbq_rules::Scratch, hidden: &mut Hidden) {
    let origin = entry.origin();
    let header = &entry.batch.header;
    let end = hidden.records() + u64::from(header.records);
    let fields = entry.batch.fields();
    let mut details = entry.batch.details();
    let mut own_fields = entry.batch.record_fields();
    for (sequence, record, peer) in entry.numbered() {
        let output = details.next().map_or(Output::Unknown, |detail| detail.output);
        let message = Message {
            record,
            source: header.source,
            listener: origin.listener,
            peer,
            received_ns: origin.received_ns,
            stream: header.stream,
            sequence,
            attributes: Attributes {
                fields: match own_fields.next() {
                    Some(own) => FieldSet::Record(fields.clone(), own),
                    None => FieldSet::Batch(fields.clone()),
                },
                output,
            },
        };
        hidden.push(!rules.keeps_from(entry.source, &message, memory));
    }
    // Only a batch that was damaged in memory has fewer.
    (hidden.records()..end).for_each(|_| hidden.push(false));
}

/// The rules over time of a sink that now has those of `text`.
fn next_epochs(
    stored: Option<&[Epoch]>,
    cursor: Option<&Cursor>,
    ends: &[LanePlace],
    text: String,
) -> Result<Vec<Epoch>, String> {
    let mut epochs = match stored {
        Some(epochs) => epochs.to_vec(),
        // A new sink begins with its rules. One that had none has none for what it has not read yet.
        None if cursor.is_none() => vec![Epoch { text: text.clone(), from: Vec::new() }],
        None => vec![Epoch::default()],
    };
    if let Some(cursor) = cursor {
        let is_passed =
            |next: &Epoch| ends.iter().all(|end| cursor.place(end.lane).position >= next.begins(end.lane));
        let passed = epochs.iter().skip(1).take_while(|next| is_passed(next)).count();
        epochs.drain(..passed);
    }
    if epochs.last().is_some_and(|last| last.text == text) {
        return Ok(epochs);
    }
    let next = Epoch { text, from: ends.iter().map(|end| (end.lane, end.position)).collect() };
    // A change that failed, or was taken back at once: nothing was received meanwhile.
    if epochs.last().is_some_and(|last| last.from == next.from) {
        epochs.pop();
    }
    if epochs.last().is_some_and(|last| last.text == next.text) {
        return Ok(epochs);
    }
    if epochs.len() >= EPOCHS_MAX {
        return Err(format!(
            "messages that wait for this sink have {EPOCHS_MAX} different rules already, as many as a sink can have; let it deliver them, or \
             skip them (bbq sink skip), before its rules change again"
        ));
    }
    epochs.push(next);
    Ok(epochs)
}

fn about(store: &CursorStore) -> impl Fn(String) -> SpoolError {
    let path = store.epochs_path();
    move |text| SpoolError::Io {
        action: "use the rules of the sink,",
        path: path.clone(),
        source: io::Error::other(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(lane: u32, position: u64) -> LanePlace {
        LanePlace { lane, position, record: position }
    }

    fn cursor(places: &[LanePlace]) -> Cursor {
        Cursor { places: places.to_vec(), ..Cursor::default() }
    }

    fn next(stored: Option<&[Epoch]>, at: Option<u64>, end: u64, text: &str) -> Result<Vec<Epoch>, String> {
        let cursor = at.map(|at| cursor(&[place(0, at)]));
        next_epochs(stored, cursor.as_ref(), &[place(0, end)], text.to_owned())
    }

    fn epochs(texts: &[(&str, Option<u64>)]) -> Vec<Epoch> {
        let epoch = |(text, from): &(&str, Option<u64>)| Epoch {
            text: (*text).to_owned(),
            from: from.iter().map(|from| (0, *from)).collect(),
        };
        texts.iter().map(epoch).collect()
    }

    #[test]
    fn a_new_sink_begins_with_its_rules_and_another_one_has_them_from_then_on() {
        assert_eq!(next(None, None, 70, "a"), Ok(epochs(&[("a", None)])));
        let had_none = epochs(&[("", None), ("a", Some(70))]);
        assert_eq!(next(None, Some(10), 70, "a"), Ok(had_none.clone()));
        // The same rules at a later start.
        assert_eq!(next(Some(&had_none), Some(69), 100, "a"), Ok(had_none.clone()));
        // Nothing is left of what it had before.
        assert_eq!(next(Some(&had_none), Some(70), 100, "a"), Ok(epochs(&[("a", Some(70))])));
        // A cursor that was lost begins at the oldest message: all that is known of it stays.
        let changed = epochs(&[("", None), ("a", Some(70)), ("", Some(100))]);
        assert_eq!(next(Some(&had_none), None, 100, ""), Ok(changed));
    }

    #[test]
    fn a_change_that_is_taken_back_before_anything_came_leaves_nothing() {
        let before = epochs(&[("a", None)]);
        let changed = next(Some(&before), Some(10), 70, "b").unwrap();
        assert_eq!(changed, epochs(&[("a", None), ("b", Some(70))]));
        assert_eq!(next(Some(&changed), Some(10), 70, "a"), Ok(before));
        let twice = epochs(&[("a", None), ("c", Some(70))]);
        assert_eq!(next(Some(&changed), Some(10), 70, "c"), Ok(twice));
    }

    #[test]
    fn a_lane_that_has_no_files_any_more_holds_up_nothing() {
        let gone = [Epoch::default(), Epoch { text: "a".to_owned(), from: vec![(0, 10), (7, 10)] }];
        assert_eq!(next(Some(&gone), Some(10), 70, "a"), Ok(gone[1..].to_vec()));
    }

    #[test]
    fn the_number_of_rules_that_wait_is_bounded() {
        let mut known = epochs(&[("", None)]);
        for change in 1..EPOCHS_MAX as u64 {
            known = next(Some(&known), Some(1), change * 10, &change.to_string()).unwrap();
        }
        assert_eq!(known.len(), EPOCHS_MAX);
        let why = next(Some(&known), Some(1), 1000, "one more").unwrap_err();
        assert!(why.contains("16 different rules") && why.contains("bbq sink skip"), "{why}");
        // As soon as the first of them is passed.
        assert_eq!(next(Some(&known), Some(10), 1000, "one more").map(|epochs| epochs.len()), Ok(EPOCHS_MAX));
    }

    #[test]
    fn a_group_has_the_rules_of_when_it_became_durable() {
        let rules = |text: &str| Some(Rules::parse_text(&format!("{{\"where\":\"{text}\"}}")).unwrap());
        let epochs = [
            (epochs(&[("", Some(10))]).remove(0), None),
            (epochs(&[("a", Some(70))]).remove(0), rules("true")),
            (epochs(&[("b", Some(100))]).remove(0), rules("false")),
        ];
        let found = |position| rules_of(&epochs, place(0, position)).map(Rules::text);
        assert_eq!([1, 70].map(found), [None, None]);
        assert_eq!(
            [71, 100].map(found),
            [rules("true").map(|rules| rules.text()), rules("true").map(|rules| rules.text())]
        );
        assert_eq!(found(101), rules("false").map(|rules| rules.text()));
    }
}
