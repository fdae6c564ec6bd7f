//! Joins lines into events: the parts that a container runtime has made of a long line, and the lines of a stack trace.
//!
//! Standard output and standard error of a container alternate in one file, so each has an event that may be open.
//!
//! Invariant: what is taken ends where no event is open, so no position is within an event.

use bbq_wire::batch::{Detail, Output};
use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, BATCH_RECORDS_MAX, MESSAGE_BYTES_MAX};
use memchr::memchr_iter;

use crate::cut::Cut;
use crate::filter::Records;
use crate::format::{Format, Line};
use crate::limits::{TURN_BYTES, TURN_RECORDS_MAX};
use crate::multiline::Multiline;

/// How events are made of the bytes at a position.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) format: Format,
    pub(crate) multiline: Option<&'a Multiline>,
    /// The longest event.
    pub(crate) line_bytes_max: usize,
    /// No line comes any more: all events end with the bytes, also a last line without a line feed.
    pub(crate) is_end: bool,
    /// No line came for a while: events end, but not within a line.
    pub(crate) is_quiet: bool,
    /// There is no room for more bytes: all events end behind the last line.
    pub(crate) is_forced: bool,
}

impl Rules<'_> {
    /// Bytes that are enough for a line of the largest size, or for events of both outputs that alternate. An event that takes more is
    /// ended.
    pub(crate) fn bytes_max(&self) -> usize {
        match self.format {
            Format::Plain if self.multiline.is_none() => self.line_bytes_max + 2,
            _ => self.line_bytes_max * 3 / 2 + TURN_BYTES,
        }
    }
}

/// Finished events that wait for one that is open. It is ended then, as empty lines behind it would be more records than a batch can have.
const WAITING_RECORDS_MAX: usize = 2 * TURN_RECORDS_MAX as usize;

/// What a record takes beside its text: its length, its time and its output.
const RECORD_BYTES_MAX: usize = 5 + 9;

// They fit in a batch: the texts take no more than the lines in the file. One open event for each output comes on top.
const _: () = assert!(
    MESSAGE_BYTES_MAX as usize * 3 / 2
        + TURN_BYTES
        + (WAITING_RECORDS_MAX + 3) * RECORD_BYTES_MAX
        + (1 << 18)
        < BATCH_BODY_BYTES_MAX as usize
);
const _: () = assert!(WAITING_RECORDS_MAX + 3 < BATCH_RECORDS_MAX as usize);

/// An event that is not finished.
#[derive(Debug, Default)]
struct Open {
    text: Vec<u8>,
    detail: Detail,
    /// Where its last line begins in the text.
    last_line: usize,
    /// Whether its last line goes on.
    is_partial: bool,
}

/// Events, of which the first ones can be taken.
#[derive(Default)]
struct Joiner {
    open: [Option<Open>; 3],
    /// Finished events in one buffer: where each ends.
    text: Vec<u8>,
    ends: Vec<(usize, Detail)>,
    cut: Cut,
    /// How many of the finished events are taken.
    safe: usize,
    /// Events over the limit, and their bytes.
    oversize: (u64, u64),
}

/// Cuts whole events into the batch.
pub(crate) fn events(bytes: &[u8], rules: &Rules<'_>, records: &mut Records<'_>) -> Cut {
    let mut joiner = Joiner::default();
    let mut from = 0;
    for at in memchr_iter(b'\n', bytes) {
        joiner.add(from, rules.format.line(&bytes[from..at]), rules);
        from = at + 1;
        if joiner.ends.len() >= WAITING_RECORDS_MAX {
            joiner.finish_all(rules, |_| true);
        }
        joiner.note_safe(from);
        if joiner.is_full() {
            break;
        }
    }
    if !joiner.is_full() {
        if rules.is_end && from < bytes.len() {
            joiner.add(from, rules.format.line(&bytes[from..]), rules);
            from = bytes.len();
        }
        if rules.is_end || rules.is_forced {
            joiner.finish_all(rules, |_| true);
        } else if rules.is_quiet && from == bytes.len() {
            joiner.finish_all(rules, |open| !open.is_partial);
        }
        joiner.note_safe(from);
    }
    joiner.put(records)
}

impl Joiner {
    fn add(&mut self, from: usize, line: Line<'_>, rules: &Rules<'_>) {
        let slot = match line.detail.output {
            Output::Unknown => 0,
            Output::Stdout => 1,
            Output::Stderr => 2,
        };
        if let Some(open) = &mut self.open[slot] {
            let begins =
                || rules.multiline.is_none_or(|rule| rule.begins(&line.text, &open.text[open.last_line..]));
            if open.is_partial {
                open.text.extend_from_slice(&line.text);
                open.is_partial = line.is_partial;
                return self.end_line(slot, rules);
            }
            if !begins() && open.text.len() + 1 + line.text.len() <= rules.line_bytes_max {
                open.text.push(b'\n');
                open.last_line = open.text.len();
                open.text.extend_from_slice(&line.text);
                open.is_partial = line.is_partial;
                return;
            }
            self.finish(slot, rules);
            self.note_safe(from);
        }
        let Line { text, detail, is_partial } = line;
        self.open[slot] = Some(Open { text: text.into_owned(), detail, last_line: 0, is_partial });
        self.end_line(slot, rules);
    }

    /// Without rules for several lines, each whole line is an event.
    fn end_line(&mut self, slot: usize, rules: &Rules<'_>) {
        if rules.multiline.is_none() && self.open[slot].as_ref().is_some_and(|open| !open.is_partial) {
            self.finish(slot, rules);
        }
    }

    fn finish(&mut self, slot: usize, rules: &Rules<'_>) {
        let Some(open) = self.open[slot].take() else { return };
        if open.text.len() > rules.line_bytes_max {
            self.oversize.0 += 1;
            self.oversize.1 += open.text.len() as u64;
        } else {
            self.text.extend_from_slice(&open.text);
            self.ends.push((self.text.len(), open.detail));
        }
    }

    fn finish_all(&mut self, rules: &Rules<'_>, is_finished: impl Fn(&Open) -> bool) {
        for slot in 0..self.open.len() {
            if self.open[slot].as_ref().is_some_and(&is_finished) {
                self.finish(slot, rules);
            }
        }
    }

    /// Everything before this byte can be taken, if no event is open.
    fn note_safe(&mut self, at: usize) {
        if self.open.iter().all(Option::is_none) {
            self.safe = self.ends.len();
            self.cut = Cut { taken: at, oversize: self.oversize.0, oversize_bytes: self.oversize.1 };
        }
    }

    fn is_full(&self) -> bool {
        self.safe >= TURN_RECORDS_MAX as usize || self.safe > 0 && self.ends[self.safe - 1].0 >= TURN_BYTES
    }

    fn put(self, records: &mut Records<'_>) -> Cut {
        let Joiner { mut cut, text, ends, safe, .. } = self;
        let mut from = 0;
        for (end, detail) in ends.into_iter().take(safe) {
            let record = &text[from..end];
            from = end;
            if !records.batch.has_room(record.len()) {
                // The limits exclude it. A file must not end the server, whatever is in it.
                cut.oversize += 1;
                cut.oversize_bytes += record.len() as u64;
                continue;
            }
            records.push(record, detail, end);
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use bbq_wire::StreamId;
    use bbq_wire::batch::{Batch, BatchBuilder, BatchIdentity, BatchLimits, Compression, SourceKind};

    use super::*;

    fn rules(format: Format, multiline: Option<&Multiline>) -> Rules<'_> {
        Rules { format, multiline, line_bytes_max: 100, is_end: false, is_quiet: false, is_forced: false }
    }

    fn details(text: &str, rules: &Rules<'_>) -> Vec<Detail> {
        let mut batch = BatchBuilder::new();
        events(text.as_bytes(), rules, &mut Records { batch: &mut batch, filter: None, filtered: 0 });
        let bytes = batch.finish(&IDENTITY).unwrap_or_default().to_vec();
        Batch::verify(&bytes, BatchLimits::FORMAT, &mut Vec::new()).unwrap().details().collect()
    }

    const IDENTITY: BatchIdentity = BatchIdentity {
        stream: StreamId([1; 16]),
        first_sequence: 1,
        base_time_ns: 0,
        source: SourceKind::Lines,
        compression: Compression::None,
    };

    #[test]
    fn each_event_has_the_time_and_output_of_its_first_line() {
        let rules = rules(Format::Cri, None);
        let text = "1970-01-01T00:00:00.000000001Z stdout P a\n1970-01-01T00:00:00.000000002Z stdout F b\nno line of the runtime\n";
        let first = Detail { time_ns: 1, output: Output::Stdout };
        assert_eq!(details(text, &rules), [first, Detail::default()]);
    }

    fn cut(text: &str, rules: &Rules<'_>) -> (usize, Vec<String>) {
        let mut batch = BatchBuilder::new();
        let cut =
            events(text.as_bytes(), rules, &mut Records { batch: &mut batch, filter: None, filtered: 0 });
        let bytes = batch.finish(&IDENTITY).unwrap_or_default().to_vec();
        let mut scratch = Vec::new();
        let records = match Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch) {
            Ok(batch) => batch.records().map(|record| String::from_utf8_lossy(record).into_owned()).collect(),
            Err(_) => Vec::new(),
        };
        (cut.taken, records)
    }

    fn cri(lines: &[&str]) -> String {
        lines.iter().map(|line| format!("2026-01-01T00:00:00Z {line}\n")).collect()
    }

    #[test]
    fn parts_of_both_outputs_are_joined_and_no_half_is_taken() {
        let rules = rules(Format::Cri, None);
        let text = cri(&["stdout P a", "stderr F e", "stdout P b", "stdout F c", "stdout F d"]);
        assert_eq!(cut(&text, &rules), (text.len(), ["e", "abc", "d"].map(String::from).to_vec()));
        for lines in 1..4 {
            let front: String = text.split_inclusive('\n').take(lines).collect();
            assert_eq!(cut(&front, &rules), (0, Vec::new()), "{front}");
            let all = cut(&front, &Rules { is_end: true, ..rules });
            assert_eq!(all.0, front.len());
        }
    }

    #[test]
    fn an_event_ends_where_the_next_one_begins() {
        let rule = Multiline::of("start:^[A-Z]").unwrap();
        let rules = rules(Format::Plain, Some(&rule));
        let text = "A\nb\nC\nd\n";
        assert_eq!(cut(text, &rules), (4, vec!["A\nb".to_owned()]));
        let quiet = Rules { is_quiet: true, ..rules };
        assert_eq!(cut(text, &quiet), (8, ["A\nb", "C\nd"].map(String::from).to_vec()));
        assert_eq!(cut("A\nb\nC\nhalf", &quiet), (4, vec!["A\nb".to_owned()]));
        let end = Rules { is_end: true, ..rules };
        assert_eq!(cut("A\nhalf", &end), (6, vec!["A\nhalf".to_owned()]));
    }

    #[test]
    fn a_large_event_is_several_and_a_large_line_is_left_out() {
        let rule = Multiline::of("start:^A").unwrap();
        let rules = Rules { is_end: true, ..rules(Format::Plain, Some(&rule)) };
        let line = "b".repeat(60);
        let (_, records) = cut(&format!("A\n{line}\n{line}\n"), &rules);
        assert_eq!(records, [format!("A\n{line}"), line.clone()]);
        let (taken, records) = cut(&format!("A\n{}\nA\n", "b".repeat(101)), &rules);
        assert_eq!((taken, records), (106, vec!["A".to_owned(), "A".to_owned()]));
    }
}
