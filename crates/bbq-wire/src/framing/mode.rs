//! How the messages of a syslog connection are framed, and the position in a frame.

/// Digits of the longest count that is read. A longer one is garbage, not a size.
pub(super) const COUNT_DIGITS_MAX: u8 = 10;

#[derive(Debug, Default)]
pub(super) enum Mode {
    /// No byte has arrived.
    #[default]
    Undecided,
    /// LF or NUL ends a message.
    Delimited,
    /// In a count, or before one when `digits` is 0.
    Count { digits: u8, value: u64 },
    /// In a counted message; `left` > 0.
    Counted { left: u64 },
    /// After a count that cannot be read.
    Broken { digits: u8, found: u8 },
}

impl Mode {
    /// As in `Suspended`. After a broken count the connection is closed, so no framer continues from there.
    pub(super) fn to_numbers(&self) -> (u8, u8, u64) {
        match *self {
            Mode::Undecided => (0, 0, 0),
            Mode::Delimited => (1, 0, 0),
            Mode::Count { digits, value } => (2, digits, value),
            Mode::Counted { left } => (3, 0, left),
            Mode::Broken { digits, .. } => (4, digits, 0),
        }
    }

    pub(super) fn of_numbers(mode: u8, digits: u8, number: u64) -> Option<Mode> {
        match (mode, digits, number) {
            (0, ..) => Some(Mode::Undecided),
            (1, ..) => Some(Mode::Delimited),
            (2, 0..=COUNT_DIGITS_MAX, 0..10_000_000_000) => Some(Mode::Count { digits, value: number }),
            (3, _, 1..10_000_000_000) => Some(Mode::Counted { left: number }),
            _ => None,
        }
    }
}
