//! What the outputs of a round have, and how they compare. Every output is read when all servers have delivered everything and are
//! stopped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::book::{Book, Counts};
use crate::message::Message;
use crate::output::Output;

/// A message's run and number.
type Key = (u32, u64);

/// The messages of an output, in the order of its lines, by lane of the server that wrote it.
pub(super) type Lanes = BTreeMap<u64, Vec<Key>>;

/// Reads the central output. The book checks each message.
pub(super) fn read_central(output: &mut Output, book: &Book) -> Result<Lanes> {
    let mut lanes = Lanes::new();
    output.read(|line| match parse(line) {
        Some((lane, text)) => {
            book.see(text.as_bytes());
            let message = Message::read(text.as_bytes());
            lanes.entry(lane).or_default().extend(message.map(|message| (message.run, message.number)));
        }
        None => book.see(line),
    })?;
    Ok(lanes)
}

/// The lane and the text of a message.
fn parse(line: &[u8]) -> Option<(u64, String)> {
    let value: Value = serde_json::from_slice(line).ok()?;
    Some((value["worker"].as_u64()?, value["message"].as_str()?.to_owned()))
}

/// An output of a sink that is added and removed, or that lies behind one. It may miss messages, and is otherwise as good as the
/// central one.
pub(super) struct Copy {
    pub(super) name: String,
    output: Output,
    pub(super) counts: Counts,
    pub(super) findings: Vec<String>,
}

/// The most findings in the report.
const FINDINGS_MAX: usize = 12;

impl Copy {
    pub(super) fn new(name: &str, path: &Path) -> Copy {
        Copy {
            name: name.to_owned(),
            output: Output::new(path.to_owned()),
            counts: Counts::default(),
            findings: Vec::new(),
        }
    }

    /// Reads the lines of a round. Each message is in the central output, and here at most once.
    pub(super) fn read(&mut self, central: &Lanes, book: &Book) -> Result<Lanes> {
        let known: HashSet<Key> = central.values().flatten().copied().collect();
        let mut seen = HashSet::new();
        let mut next: HashMap<u32, u64> = HashMap::new();
        let mut lanes = Lanes::new();
        let (counts, findings) = (&mut self.counts, &mut self.findings);
        let mut find = |finding: String| {
            if findings.len() < FINDINGS_MAX {
                findings.push(finding);
            }
        };
        self.output.read(|line| {
            counts.messages += 1;
            let parsed = parse(line).and_then(|(lane, text)| Some((lane, Message::read(text.as_bytes())?)));
            let known = parsed.filter(|(_, message)| known.contains(&(message.run, message.number)));
            let Some((lane, Message { run, number })) = known else {
                counts.foreign += 1;
                find(format!("a line that is not in the central output: {}", String::from_utf8_lossy(line)));
                return;
            };
            lanes.entry(lane).or_default().push((run, number));
            let next = next.entry(run).or_default();
            if !seen.insert((run, number)) {
                counts.doubled += 1;
                find(format!("run {run:08x}, message {number} came twice"));
            } else if book.is_ordered(run) && number < *next {
                counts.disordered += 1;
                find(format!("run {run:08x}, message {number} came after message {}", *next - 1));
            }
            *next = (*next).max(number + 1);
        })?;
        Ok(lanes)
    }

    /// Compares with the other output of the same server, lane by lane: the same order, without at most `gaps` parts, as often as the
    /// sink was added. What is missing beside them is lost.
    pub(super) fn compare(&mut self, central: &Lanes, own: &Lanes, gaps: u64) {
        for (lane, central) in central {
            let places: HashMap<Key, usize> =
                central.iter().enumerate().map(|(place, key)| (*key, place)).collect();
            let mut expected = 0;
            let mut holes = Vec::new();
            for key in own.get(lane).into_iter().flatten() {
                let Some(&place) = places.get(key) else {
                    self.counts.disordered += 1;
                    self.findings
                        .push(format!("lane {lane}: {key:?} is in another lane of the other output"));
                    continue;
                };
                if place < expected {
                    self.counts.disordered += 1;
                    self.findings.push(format!("lane {lane}: {key:?} came late"));
                } else if place > expected {
                    holes.push(expected..place);
                }
                expected = expected.max(place + 1);
            }
            if expected < central.len() {
                holes.push(expected..central.len());
            }
            if holes.len() as u64 > gaps {
                self.counts.lost += holes.iter().map(|hole| hole.len() as u64).min().unwrap_or(0);
                self.findings
                    .push(format!("lane {lane}: the sink was added {gaps} times, and misses {holes:?}"));
            }
        }
        self.findings.truncate(FINDINGS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Promise;

    fn compared(own: &[u64], gaps: u64) -> Counts {
        let lane = |numbers: &[u64]| {
            Lanes::from([(0, numbers.iter().map(|number| (7, *number)).collect::<Vec<Key>>())])
        };
        let mut copy = Copy::new("copy", Path::new("/nowhere"));
        copy.compare(&lane(&[0, 1, 2, 3, 4, 5]), &lane(own), gaps);
        copy.counts
    }

    /// What a copy with these messages of run 0 counts, if the central output has the messages 0 to 4.
    fn read(numbers: &[u64]) -> Counts {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("messages.log");
        let line = |number: &u64| {
            let mut text = Vec::new();
            Message { run: 0, number: *number }.write(&mut text);
            format!("{{\"worker\":2,\"message\":\"{}\"}}\n", String::from_utf8(text).unwrap())
        };
        std::fs::write(&path, numbers.iter().map(line).collect::<String>()).unwrap();
        let book = Book::default();
        book.begin("test".to_owned(), Promise { ordered: true, no_holes: true, durable: true });
        let central = Lanes::from([(0, (0..5).map(|number| (0, number)).collect())]);
        let mut copy = Copy::new("copy", &path);
        let lanes = copy.read(&central, &book).unwrap();
        assert_eq!(lanes.values().flatten().count() as u64, copy.counts.messages - copy.counts.foreign);
        copy.counts
    }

    #[test]
    fn a_doubled_a_late_and_a_foreign_line_of_a_copy_are_told_apart() {
        assert_eq!(read(&[1, 2, 4]), Counts { messages: 3, ..Counts::default() });
        assert_eq!(read(&[1, 2, 2]), Counts { messages: 3, doubled: 1, ..Counts::default() });
        assert_eq!(read(&[2, 1, 3]), Counts { messages: 3, disordered: 1, ..Counts::default() });
        assert_eq!(read(&[2, 5]), Counts { messages: 2, foreign: 1, ..Counts::default() });
    }

    #[test]
    fn a_copy_misses_one_part_for_each_addition_and_keeps_the_order() {
        assert!(compared(&[0, 1, 2, 3, 4, 5], 0).is_clean());
        assert!(compared(&[0, 1, 4, 5], 1).is_clean());
        assert!(compared(&[2, 3, 5], 2).is_clean());
        assert_eq!(compared(&[2, 3, 5], 1).lost, 1);
        assert_eq!(compared(&[0, 1, 2, 3, 4], 0).lost, 1, "the end is missing");
        assert_eq!(compared(&[0, 2, 1, 3, 4, 5], 1).disordered, 1);
    }
}
