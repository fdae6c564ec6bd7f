//! The rules of a sink over time: which it had for which part of each lane, in one small file beside its cursor.
//!
//! ```text
//! bbq rules 1 <crc>                         see crate::sealed
//! sink <name>
//! rules <text>                              one block for each, in their order; the text is empty if there are none
//! from <lane> <position>                    they hold for groups that end behind it; a lane that is missing, from its beginning on
//! ```
//!
//! What a destination has of a group is counted in the messages that the rules leave. So the rules of a group never change: other rules hold
//! for groups that become durable later.
//!
//! Not here: what the text says.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::{Storage, sealed};

pub(crate) const EXTENSION: &str = "rules";
const KIND: &str = "rules";

/// Rules, and where they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The rules, in one line; empty if there are none.
    pub text: String,
    /// Where each lane ended when they were set, by lane and position.
    pub from: Vec<(u32, u64)>,
}

impl Epoch {
    /// Whether they hold for the group of a lane that ends at this position, unless later ones do.
    #[must_use]
    pub fn has_begun(&self, lane: u32, until: u64) -> bool {
        until > self.begins(lane)
    }

    /// Where they begin in a lane.
    #[must_use]
    pub fn begins(&self, lane: u32) -> u64 {
        self.from.iter().find(|(of, _)| *of == lane).map_or(0, |(_, position)| *position)
    }
}

pub(crate) fn encode(sink: &str, epochs: &[Epoch]) -> String {
    let mut body = format!("sink {sink}\n");
    // Writing to a String cannot fail.
    for Epoch { text, from } in epochs {
        let _infallible = writeln!(body, "rules {}", text.replace(['\n', '\r'], " "));
        for (lane, position) in from {
            let _infallible = writeln!(body, "from {lane} {position}");
        }
    }
    sealed::seal(KIND, &body)
}

fn decode(contents: &str) -> Option<Vec<Epoch>> {
    let mut epochs: Vec<Epoch> = Vec::new();
    for line in sealed::open(KIND, contents)?.lines() {
        let (key, value) = line.split_once(' ')?;
        match key {
            "rules" => epochs.push(Epoch { text: value.to_owned(), from: Vec::new() }),
            "from" => {
                let (lane, position) = value.split_once(' ')?;
                epochs.last_mut()?.from.push((lane.parse().ok()?, position.parse().ok()?));
            }
            // The name.
            _ => {}
        }
    }
    Some(epochs)
}

/// `None` if there is no file.
pub(crate) fn read(storage: &dyn Storage, path: &Path) -> io::Result<Option<Vec<Epoch>>> {
    let bytes = match storage.read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    std::str::from_utf8(&bytes).ok().and_then(decode).map(Some).ok_or_else(|| {
        let text = "the file is damaged; restore it, or delete it: then the rules of the configuration hold for every message in the spool, \
                    and of a group that is half delivered, messages may be missing or come twice";
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<Epoch> {
        let epoch = |text: &str, from: &[(u32, u64)]| Epoch { text: text.to_owned(), from: from.to_vec() };
        vec![
            Epoch::default(),
            epoch("where=severity <= 4 || a == \"b\"", &[(0, 4096), (3, 1 << 40)]),
            epoch("", &[(0, 8192)]),
        ]
    }

    #[test]
    fn what_was_written_is_read_and_every_changed_byte_is_noticed() {
        let text = encode("file:a", &example());
        assert_eq!(decode(&text), Some(example()));
        for index in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[index] ^= 1;
            let read = String::from_utf8(bytes).ok().and_then(|text| decode(&text));
            assert_eq!(read, None, "byte {index}");
        }
    }

    #[test]
    fn rules_hold_for_groups_that_end_behind_their_beginning() {
        let begun = |lane, position| {
            example().iter().map(|epoch| epoch.has_begun(lane, position)).collect::<Vec<_>>()
        };
        assert_eq!(begun(0, 4096), [true, false, false]);
        assert_eq!(begun(0, 4097), [true, true, false]);
        assert_eq!(begun(0, 8193), [true, true, true]);
        // A lane that did not exist when they were set.
        assert_eq!((begun(3, 1), begun(7, 1)), (vec![true, false, true], vec![true, true, true]));
    }
}
