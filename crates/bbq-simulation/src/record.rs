//! Records that can be identified in the output.

/// A record: its client, and its number among that client's records, from 1. No two records have the same numbers, even after
/// a restart of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) client: usize,
    pub(crate) number: u64,
    pub(crate) bytes: u32,
}

const LETTERS: [&str; 26] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u",
    "v", "w", "x", "y", "z",
];

impl Record {
    /// The bytes of the record. Its numbers determine them.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} {} {} ", self.client, self.number, self.bytes);
        let wanted = self.bytes as usize;
        if text.len() < wanted {
            let letter = LETTERS[((self.number * 7 + self.client as u64) % 26) as usize];
            text.push_str(&letter.repeat(wanted - text.len()));
        }
        text
    }

    /// The record with exactly this text.
    pub(crate) fn read(text: &str) -> Option<Record> {
        let mut words = text.splitn(4, ' ');
        let client = words.next()?.parse().ok()?;
        let number = words.next()?.parse().ok()?;
        let bytes = words.next()?.parse().ok()?;
        let record = Record { client, number, bytes };
        (record.text() == text).then_some(record)
    }
}
