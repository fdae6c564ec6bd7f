//! How far a handler is in a lane, as it can keep it.
//!
//! ```text
//! <queue>/<lane>/<messages>       the id of the queue in 32 hexadecimal digits, and two decimal numbers
//! ```
//!
//! Damage in the spool shifts the numbers of the messages behind it up to the end of their group, the messages of one write.

use std::fmt;
use std::str::FromStr;

/// A place in a lane behind a message. To be kept as text (`to_string`, `parse`), at most 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// Made at random with the cursor of the handler. Another data directory has another one.
    pub(super) queue: u128,
    pub(super) lane: u32,
    /// Messages of the lane before this place, since it exists.
    pub(super) messages: u64,
}

/// The text is not a [`Position`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a position: it is the text of bbq_server::Position, with nothing added")]
pub struct ParsePositionError(String);

impl Position {
    /// The lane. Lanes are numbered from 0; there is one for each worker, and those of earlier workers.
    #[must_use]
    pub fn lane(&self) -> u32 {
        self.lane
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}/{}/{}", self.queue, self.lane, self.messages)
    }
}

impl FromStr for Position {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Position, ParsePositionError> {
        let read = || {
            let mut parts = text.split('/');
            let position = Position {
                queue: u128::from_str_radix(parts.next()?, 16).ok()?,
                lane: parts.next()?.parse().ok()?,
                messages: parts.next()?.parse().ok()?,
            };
            // Whatever was cut or added changes the text.
            (position.to_string() == text).then_some(position)
        };
        read().ok_or_else(|| ParsePositionError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_from_its_text_and_from_no_other() {
        let position = Position { queue: 7 << 90, lane: 3, messages: u64::MAX };
        let text = position.to_string();
        assert_eq!(text.parse(), Ok(position));
        assert!(text.len() <= 64);
        for other in ["", "1/2/3", &text[1..], &text[..text.len() - 22], &format!("{text} "), "//"] {
            assert!(other.parse::<Position>().is_err(), "{other:?}");
        }
    }
}
