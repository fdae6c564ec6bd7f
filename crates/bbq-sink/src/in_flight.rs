//! How far a sink is with each lane: what was submitted but is not settled yet.
//!
//! A place of a cursor is between two groups. A file may become full in the middle of a group, so the cursor also remembers, for
//! each lane, how many records of the group behind its place are in the output already or were rejected. These records are
//! counted when the whole group is settled.
//!
//! ```text
//! begun <lane>:<records> <lane>:<records>:<reason>=<records>,<reason>=<records>; <state of the output>
//! ```
//!
//! The number of records of a lane includes those that were rejected.
//!
//! Invariant: the place of a lane moves over settled groups only, in their order.

use std::collections::VecDeque;
use std::fmt;

use bbq_spool::{Cursor, Group, LanePlace, Lost};

use super::interface::Settled;
use super::ledger::{BegunGroup, DAMAGED, Reason, SettledTotals, reason_name};
use super::rejected::DeadLetter;

/// A group that was submitted, or records that will never come.
struct Submitted {
    until: LanePlace,
    records: u64,
    /// How many of them the sink's rules leave out: the sink does not see them.
    filtered: u64,
    /// Bytes in the lane, of groups that were left out as a whole.
    left_out_bytes: u64,
    /// When it was received, Unix nanoseconds, if anybody wants to know.
    received_ns: Option<u64>,
    /// The rejected records, by reason, among those that were begun before the group was submitted.
    rejected_before: Vec<(Reason, u64)>,
    outcome: Option<Outcome>,
}

impl Submitted {
    /// Whether these are groups that were given up for this reason, and nothing else.
    fn is_given_up(&self, reason: &'static str) -> bool {
        let outcome = self.outcome.as_ref();
        outcome.is_some_and(|outcome| {
            let is_all = outcome.delivered == 0 && self.filtered == 0;
            is_all && matches!(&outcome.dropped[..], [(of, _)] if of == reason)
        })
    }

    /// Whether these are groups that were left out, and nothing else.
    fn is_left_out(&self) -> bool {
        let outcome = self.outcome.as_ref();
        outcome.is_some_and(|outcome| outcome.delivered == 0 && outcome.dropped.is_empty())
    }

    /// Adds a group that was given up for the same reason.
    fn extend(&mut self, until: LanePlace, records: u64) {
        self.until = until;
        self.records = self.records.saturating_add(records);
        for (_, dropped) in self.outcome.iter_mut().flat_map(|outcome| &mut outcome.dropped) {
            *dropped = dropped.saturating_add(records);
        }
    }
}

#[derive(Default)]
struct Outcome {
    delivered: u64,
    /// By reason.
    dropped: Vec<(Reason, u64)>,
    letters: Vec<DeadLetter>,
}

/// The first records of a group that are settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Begun {
    records: u64,
    /// How many of them were rejected, by reason.
    rejected: Vec<(Reason, u64)>,
}

/// One lane.
struct LaneInFlight {
    /// The settled records of the group behind the lane's place.
    begun: Begun,
    /// Bytes of what was submitted that nobody keeps in memory.
    left_out_bytes: u64,
    submitted: VecDeque<Submitted>,
}

/// All lanes, in the order of the readers.
pub(crate) struct InFlight {
    /// Behind the last settled group of each lane.
    places: Vec<LanePlace>,
    lanes: Vec<LaneInFlight>,
}

impl InFlight {
    /// Goes on from a cursor whose places are those of the readers, in their order.
    pub(crate) fn of(cursor: &Cursor) -> InFlight {
        let lane = |begun| LaneInFlight { begun, left_out_bytes: 0, submitted: VecDeque::new() };
        InFlight { places: cursor.places.clone(), lanes: begun_of(cursor).into_iter().map(lane).collect() }
    }

    pub(crate) fn places(&self) -> &[LanePlace] {
        &self.places
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.submitted.is_empty())
    }

    /// Whether the reader's lane is full: no more groups are submitted until its first group is settled.
    pub(crate) fn is_full(&self, reader: usize, groups_max: usize) -> bool {
        self.lanes[reader].submitted.len() >= groups_max
    }

    /// Bytes in the lanes of what is submitted and not settled, without groups that were left out as a whole.
    pub(crate) fn bytes(&self) -> u64 {
        let of_lane = |(place, lane): (&LanePlace, &LaneInFlight)| {
            let all =
                lane.submitted.back().map_or(0, |last| last.until.position.saturating_sub(place.position));
            all.saturating_sub(lane.left_out_bytes)
        };
        self.places.iter().zip(&self.lanes).map(of_lane).sum()
    }

    /// The same without the first group of each lane.
    pub(crate) fn bytes_after_first(&self) -> u64 {
        let of_lane = |lane: &LaneInFlight| match (lane.submitted.front(), lane.submitted.back()) {
            (Some(first), Some(last)) => last.until.position.saturating_sub(first.until.position),
            _ => 0,
        };
        self.lanes.iter().map(of_lane).sum()
    }

    /// The reader's first group that is not settled, by the place behind it.
    pub(crate) fn first(&self, reader: usize) -> Option<LanePlace> {
        self.lanes[reader].submitted.front().map(|submitted| submitted.until)
    }

    /// When the first group was received that is on its way, of those whose time is known.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.lanes.iter().filter_map(|lane| lane.submitted.front()?.received_ns).min()
    }

    /// Notes that a group of the reader is submitted, without the records that are `filtered`. Returns how many of its records are settled
    /// already.
    pub(crate) fn submit(&mut self, reader: usize, group: &Group, filtered: u64) -> u64 {
        self.submit_records(reader, group.until(), group.records(), filtered)
    }

    /// Notes when the group was received that the reader has submitted last.
    pub(crate) fn set_received(&mut self, reader: usize, received_ns: Option<u64>) {
        if let Some(last) = self.lanes[reader].submitted.back_mut() {
            last.received_ns = received_ns;
        }
    }

    fn submit_records(&mut self, reader: usize, until: LanePlace, records: u64, filtered: u64) -> u64 {
        let Begun { records: begun, rejected: rejected_before } = self.begun_before(reader, until);
        let submitted = Submitted {
            until,
            records,
            filtered,
            left_out_bytes: 0,
            received_ns: None,
            rejected_before,
            outcome: None,
        };
        self.lanes[reader].submitted.push_back(submitted);
        begun
    }

    /// Notes that records of the reader's lane will not come. Returns how many the output never got: it may have some already.
    pub(crate) fn lose(&mut self, reader: usize, until: LanePlace, lost: Lost) -> u64 {
        self.pass(reader, until, (lost.records, 0), reason_name(lost.reason))
    }

    /// Notes that the rules leave out these records of a group of the reader, and that nothing else of it can be read. Groups that follow
    /// each other count as one.
    pub(crate) fn leave_out(&mut self, reader: usize, group: &Group, filtered: u64) {
        self.leave_out_records(reader, group.until(), (group.records(), filtered));
        let (lane, bytes) = (&mut self.lanes[reader], group.bytes() as u64);
        if let Some(last) = lane.submitted.back_mut() {
            last.left_out_bytes += bytes;
            lane.left_out_bytes += bytes;
        }
    }

    fn leave_out_records(&mut self, reader: usize, until: LanePlace, (records, filtered): (u64, u64)) {
        let last = self.lanes[reader].submitted.back_mut();
        match last.filter(|last| last.is_left_out() && records == filtered) {
            Some(last) => {
                last.until = until;
                last.records = last.records.saturating_add(records);
                last.filtered = last.filtered.saturating_add(filtered);
            }
            None => {
                self.pass(reader, until, (records, filtered), DAMAGED);
            }
        }
    }

    /// Notes that a group of the reader is given up. Groups that follow each other count as one: many may be given up behind one that is on
    /// its way.
    pub(crate) fn give_up(&mut self, reader: usize, group: &Group, reason: &'static str) {
        self.give_up_records(reader, group.until(), group.records(), reason);
    }

    fn give_up_records(&mut self, reader: usize, until: LanePlace, records: u64, reason: &'static str) {
        match self.lanes[reader].submitted.back_mut().filter(|last| last.is_given_up(reason)) {
            Some(last) => last.extend(until, records),
            None => {
                self.pass(reader, until, (records, 0), reason);
            }
        }
    }

    /// Notes that nothing of these records will be settled by the sink: so many are left out, the others dropped.
    fn pass(
        &mut self,
        reader: usize,
        until: LanePlace,
        (records, filtered): (u64, u64),
        reason: &'static str,
    ) -> u64 {
        let begun = self.begun_before(reader, until);
        let filtered = filtered.min(records);
        let known = begun.records.min(records - filtered);
        let missing = records - filtered - known;
        let delivered = known.saturating_sub(sum(&begun.rejected));
        let mut dropped = begun.rejected;
        if missing > 0 || filtered == 0 {
            dropped.push((reason.into(), missing));
        }
        let outcome = Some(Outcome { delivered, dropped, letters: Vec::new() });
        let rejected_before = Vec::new();
        let submitted = Submitted {
            until,
            records,
            filtered,
            left_out_bytes: 0,
            received_ns: None,
            rejected_before,
            outcome,
        };
        self.lanes[reader].submitted.push_back(submitted);
        missing
    }

    /// The settled records of what ends at `until`. A loss that has no bytes in the lane, and so ends at the place itself, has
    /// none.
    fn begun_before(&self, reader: usize, until: LanePlace) -> Begun {
        let lane = &self.lanes[reader];
        let is_next = lane.submitted.is_empty() && until.position != self.places[reader].position;
        if is_next { lane.begun.clone() } else { Begun::default() }
    }

    /// Notes that a group is settled: its records are delivered, rejected, or were damaged.
    pub(crate) fn settle(&mut self, settled: Settled) {
        let Settled { until, delivered, rejected, letters, .. } = settled;
        let Some(lane) = self.places.iter().position(|place| place.lane == until.lane) else { return };
        let submitted = &mut self.lanes[lane].submitted;
        let of_group = |submitted: &&mut Submitted| submitted.until == until && submitted.outcome.is_none();
        // There may be many groups; the places only grow.
        let from = submitted.partition_point(|submitted| submitted.until.position < until.position);
        if let Some(submitted) = submitted.range_mut(from..).find(of_group) {
            let rejected = shared(rejected);
            let shown = submitted.records.saturating_sub(submitted.filtered);
            let damaged = shown.saturating_sub(delivered).saturating_sub(sum(&rejected));
            let mut dropped = std::mem::take(&mut submitted.rejected_before);
            let delivered = delivered.saturating_sub(sum(&dropped));
            dropped.extend(rejected);
            if damaged > 0 {
                dropped.push((DAMAGED.into(), damaged));
            }
            submitted.outcome = Some(Outcome { delivered, dropped, letters });
        }
    }

    /// Moves the places over settled groups without a gap. Returns the sums of these groups, if a place moved.
    pub(crate) fn advance(&mut self) -> Option<SettledTotals> {
        let mut totals: Option<SettledTotals> = None;
        for (place, lane) in self.places.iter_mut().zip(&mut self.lanes) {
            while let Some(Submitted { outcome: outcome @ Some(_), .. }) = lane.submitted.front_mut()
                && let Some(Outcome { delivered, dropped, letters }) = outcome.take()
                && let Some(Submitted { until, filtered, left_out_bytes, .. }) = lane.submitted.pop_front()
            {
                lane.left_out_bytes -= left_out_bytes;
                if until.position != place.position {
                    lane.begun = Begun::default();
                }
                *place = until;
                let totals = totals.get_or_insert_default();
                totals.delivered = totals.delivered.saturating_add(delivered);
                totals.dropped.extend(dropped);
                totals.filtered = totals.filtered.saturating_add(filtered);
                totals.letters.extend(letters);
            }
        }
        totals
    }

    /// Notes that the output has this many records of the group behind the place of a lane.
    pub(crate) fn begin(&mut self, lane: u32, records: u64) {
        if let Some(index) = self.places.iter().position(|place| place.lane == lane) {
            self.lanes[index].begun.records = records;
        }
    }

    /// Notes that the first records of the reader's first group are settled. Returns the letters to keep.
    pub(crate) fn begin_with(&mut self, reader: usize, part: Settled) -> Vec<DeadLetter> {
        let LaneInFlight { begun, submitted, .. } = &mut self.lanes[reader];
        if let Some(first) = submitted.front().filter(|first| first.until == part.until) {
            let now = shared(part.rejected);
            begun.records = part.delivered.saturating_add(sum(&now));
            begun.rejected.clone_from(&first.rejected_before);
            for (reason, records) in now {
                match begun.rejected.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, known)) => *known = known.saturating_add(records),
                    None => begun.rejected.push((reason, records)),
                }
            }
        }
        part.letters
    }

    /// The settled records of groups that are not settled as a whole.
    pub(crate) fn begun(&self) -> Vec<BegunGroup> {
        let lanes = self.places.iter().zip(&self.lanes).filter(|(_, lane)| lane.begun.records > 0);
        let of_lane = |(place, lane): (&LanePlace, &LaneInFlight)| {
            let Begun { records, rejected } = lane.begun.clone();
            BegunGroup { lane: place.lane, records, dropped: rejected }
        };
        lanes.map(of_lane).collect()
    }

    /// What the cursor remembers, with the state of the output.
    pub(crate) fn state(&self, output: &str) -> String {
        let of_lane = |(place, lane): (&LanePlace, &LaneInFlight)| {
            (lane.begun.records > 0).then(|| format!("{}:{}", place.lane, lane.begun))
        };
        let begun: Vec<String> = self.places.iter().zip(&self.lanes).filter_map(of_lane).collect();
        if begun.is_empty() { output.to_owned() } else { format!("begun {}; {output}", begun.join(" ")) }
    }
}

/// The state of the output, without the begun records before it.
pub(crate) fn state_of_output(state: &str) -> &str {
    state.strip_prefix("begun ").and_then(|rest| rest.split_once("; ")).map_or(state, |(_, output)| output)
}

fn sum(records: &[(Reason, u64)]) -> u64 {
    records.iter().fold(0, |sum, (_, records)| sum.saturating_add(*records))
}

fn shared(rejected: Vec<(&'static str, u64)>) -> Vec<(Reason, u64)> {
    rejected.into_iter().map(|(reason, records)| (reason.into(), records)).collect()
}

/// As the cursor has it after the lane.
impl fmt::Display for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.records)?;
        for (index, (reason, records)) in self.rejected.iter().enumerate() {
            write!(f, "{}{reason}={records}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl Begun {
    /// Reads what the cursor has after the lane.
    fn parse(text: &str) -> Option<Begun> {
        let (records, rejected) = text.split_once(':').unwrap_or((text, ""));
        let of_reason = |word: &str| {
            let (reason, records) = word.split_once('=')?;
            Some((reason.to_owned().into(), records.parse().ok()?))
        };
        let words = rejected.split(',').filter(|word| !word.is_empty());
        Some(Begun { records: records.parse().ok()?, rejected: words.map(of_reason).collect::<Option<_>>()? })
    }
}

/// For each place of a cursor, the settled records of the group behind it.
fn begun_of(cursor: &Cursor) -> Vec<Begun> {
    let words = cursor.output.strip_prefix("begun ").and_then(|rest| rest.split_once("; "));
    let words = words.map_or("", |(words, _)| words);
    let of_lane = |lane: u32| {
        words.split(' ').find_map(|word| {
            let (of, begun) = word.split_once(':')?;
            if of.parse() == Ok(lane) { Begun::parse(begun) } else { None }
        })
    };
    cursor.places.iter().map(|place| of_lane(place.lane).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use bbq_spool::LostReason;

    use super::*;

    fn place(lane: u32, position: u64, record: u64) -> LanePlace {
        LanePlace { lane, position, record }
    }

    #[test]
    fn what_was_begun_comes_back_beside_what_the_output_remembers() {
        let places = vec![place(0, 7, 1), place(3, 7, 1), place(12, 7, 1)];
        for (begun, output) in [([0, 17, 1], "inode 5 length 9 rotating a; b"), ([0, 0, 0], "")] {
            let mut in_flight = InFlight::of(&Cursor { places: places.clone(), ..Cursor::default() });
            for (place, records) in places.iter().zip(begun) {
                in_flight.begin(place.lane, records);
            }
            let state = in_flight.state(output);
            let cursor = Cursor { places: places.clone(), output: state.clone(), ..Cursor::default() };
            assert_eq!(begun_of(&cursor).iter().map(|begun| begun.records).collect::<Vec<_>>(), begun);
            assert_eq!(state_of_output(&state), output);
        }
    }

    fn dropped(records: &[(&'static str, u64)]) -> Vec<(Reason, u64)> {
        shared(records.to_vec())
    }

    fn settled(until: LanePlace, delivered: u64) -> Settled {
        Settled { until, delivered, rejected: Vec::new(), letters: Vec::new(), received_ns: 0 }
    }

    #[test]
    fn places_move_over_settled_groups_without_a_gap() {
        let cursor = Cursor { places: vec![place(0, 0, 0), place(4, 0, 0)], ..Cursor::default() };
        let mut in_flight = InFlight::of(&cursor);
        let untils = [place(4, 10, 5), place(4, 20, 9), place(4, 30, 12)];
        for (until, records) in untils.into_iter().zip([5, 4, 3]) {
            in_flight.submit_records(1, until, records, 0);
        }
        in_flight.settle(settled(untils[1], 4));
        in_flight.settle(Settled { rejected: vec![("too-large", 1)], ..settled(untils[2], 1) });
        assert!(in_flight.advance().is_none());
        assert_eq!(in_flight.places(), [place(0, 0, 0), place(4, 0, 0)]);
        in_flight.settle(settled(untils[0], 5));
        let totals = in_flight.advance().expect("there is no gap");
        assert_eq!((totals.delivered, totals.dropped), (10, dropped(&[("too-large", 1), (DAMAGED, 1)])));
        assert_eq!(in_flight.places()[1], untils[2]);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn any_number_of_groups_is_given_up_behind_one_that_is_on_its_way() {
        let cursor = Cursor {
            places: vec![place(0, 0, 0)],
            output: "begun 0:2:refused=1; x".to_owned(),
            ..Cursor::default()
        };
        let mut in_flight = InFlight::of(&cursor);
        // The beginning of the first is in the output.
        in_flight.give_up_records(0, place(0, 10, 5), 5, "over_limit");
        assert_eq!(in_flight.submit_records(0, place(0, 20, 10), 5, 0), 0);
        for group in 2..1000 {
            in_flight.give_up_records(0, place(0, 10 + 10 * group, 5 + 5 * group), 5, "over_limit");
        }
        assert!(!in_flight.is_full(0, 4) && in_flight.is_full(0, 3));
        in_flight.give_up_records(0, place(0, 20_000, 5005), 5, "over_age");
        let totals = in_flight.advance().expect("the first is known at once");
        assert_eq!((totals.delivered, totals.dropped), (1, dropped(&[("refused", 1), ("over_limit", 3)])));
        in_flight.settle(settled(place(0, 20, 10), 5));
        let totals = in_flight.advance().expect("there is no gap");
        let expected = [("over_limit", 998 * 5), ("over_age", 5)];
        assert_eq!((totals.delivered, totals.dropped), (5, dropped(&expected)));
        assert!(in_flight.is_empty() && in_flight.places()[0].record == 5005);
    }

    #[test]
    fn what_is_left_out_is_neither_delivered_nor_dropped() {
        let cursor = Cursor {
            places: vec![place(0, 0, 0)],
            output: "begun 0:2:refused=1; x".to_owned(),
            ..Cursor::default()
        };
        let mut in_flight = InFlight::of(&cursor);
        // Ten records, six of which are shown, two of these settled before.
        assert_eq!(in_flight.submit_records(0, place(0, 10, 10), 10, 4), 2);
        for group in 1..1000 {
            in_flight.leave_out_records(0, place(0, 10 + group, 10 + 5 * group), (5, 5));
        }
        assert!(in_flight.is_full(0, 2) && !in_flight.is_full(0, 3), "they are one");
        // Three of eight are damaged, so that nothing else can be read.
        in_flight.leave_out_records(0, place(0, 2000, 5013), (8, 5));
        in_flight.leave_out_records(0, place(0, 2001, 5014), (1, 1));
        in_flight.settle(Settled { rejected: vec![("refused", 2)], ..settled(place(0, 10, 10), 3) });
        let totals = in_flight.advance().expect("there is no gap");
        let expected = [("refused", 1), ("refused", 2), (DAMAGED, 1), (DAMAGED, 3)];
        assert_eq!((totals.delivered, totals.dropped), (2, dropped(&expected)));
        assert_eq!(totals.filtered, 4 + 999 * 5 + 5 + 1);
        assert!(in_flight.is_empty() && in_flight.places()[0].record == 5014);
    }

    #[test]
    fn of_a_group_that_was_begun_and_is_lost_only_the_rest_is_dropped() {
        let cursor = Cursor {
            places: vec![place(0, 5, 100)],
            output: "begun 0:7; length 1".to_owned(),
            ..Cursor::default()
        };
        let mut in_flight = InFlight::of(&cursor);
        let lost = Lost { records: 20, reason: LostReason::Oldest };
        assert_eq!(in_flight.lose(0, place(0, 50, 120), lost), 13);
        let totals = in_flight.advance().expect("it is known at once");
        assert_eq!((totals.delivered, totals.dropped), (7, dropped(&[("oldest", 13)])));
        assert_eq!(in_flight.state("x"), "x");
    }

    /// Over two runs, and with a second group that is further than the first.
    #[test]
    fn what_is_settled_of_a_group_is_remembered_and_counted_once() {
        let first = place(4, 10, 100);
        let cursor = Cursor { places: vec![place(0, 0, 0), place(4, 0, 0)], ..Cursor::default() };
        let mut in_flight = InFlight::of(&cursor);
        assert_eq!(in_flight.submit_records(1, first, 100, 0), 0);
        in_flight.submit_records(1, place(4, 20, 110), 10, 0);
        assert_eq!((in_flight.first(0), in_flight.first(1)), (None, Some(first)));
        for (delivered, refused) in [(10, 1), (20, 3)] {
            in_flight
                .begin_with(1, Settled { rejected: vec![("refused", refused)], ..settled(first, delivered) });
        }
        assert_eq!(in_flight.state("x"), "begun 4:23:refused=3; x");
        // This is not the first group.
        in_flight.begin_with(1, settled(place(4, 20, 110), 9));
        assert_eq!(in_flight.state("x"), "begun 4:23:refused=3; x");

        let mut in_flight = InFlight::of(&Cursor { output: in_flight.state("x"), ..cursor.clone() });
        assert_eq!(in_flight.submit_records(1, first, 100, 0), 23);
        assert_eq!(in_flight.state("x"), "begun 4:23:refused=3; x");
        // Of what came since, 2 were refused for that reason and 1 for another.
        let rejected = vec![("refused", 2), ("too-large", 1)];
        in_flight.begin_with(1, Settled { rejected: rejected.clone(), ..settled(first, 50) });
        assert_eq!(in_flight.state("x"), "begun 4:53:refused=5,too-large=1; x");
        let restarted = Cursor { output: in_flight.state("x"), ..cursor };
        in_flight.settle(Settled { rejected, ..settled(first, 96) });
        let totals = in_flight.advance().expect("it is settled");
        assert_eq!(totals.delivered, 93);
        let expected = [("refused", 3), ("refused", 2), ("too-large", 1), (DAMAGED, 1)];
        assert_eq!(totals.dropped, dropped(&expected));
        assert_eq!(in_flight.state("x"), "x");

        let mut in_flight = InFlight::of(&restarted);
        assert_eq!(in_flight.lose(1, first, Lost { records: 100, reason: LostReason::Damaged }), 47);
        let totals = in_flight.advance().expect("it is known at once");
        let expected = [("refused", 5), ("too-large", 1), (DAMAGED, 47)];
        assert_eq!((totals.delivered, totals.dropped), (47, dropped(&expected)));
    }
}
