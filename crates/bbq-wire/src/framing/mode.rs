//! The position in the frames of a syslog connection.

/// Digits of the longest count that is read. A longer one is text, not a size.
pub(super) const COUNT_DIGITS_MAX: u8 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// No byte has arrived.
    #[default]
    Undecided,
    /// In a message that LF or NUL ends, or behind one.
    Delimited,
    /// In a count, of which at least one digit has arrived. With `is_trusted`, a blank behind it makes it one.
    Count { digits: u8, value: u64, is_trusted: bool },
    /// Behind a count and a blank, which are text unless a priority follows.
    Announced { value: u64 },
    /// In a counted message; `left` > 0.
    Counted { left: u64 },
    /// Behind a counted message.
    BehindCounted,
}

impl Mode {
    /// As in `Suspended`.
    pub(super) fn to_numbers(self) -> (u8, u8, u64) {
        match self {
            Mode::Undecided => (0, 0, 0),
            Mode::Delimited => (1, 0, 0),
            Mode::Count { digits, value, is_trusted: true } => (2, digits, value),
            Mode::BehindCounted => (2, 0, 0),
            Mode::Counted { left } => (3, 0, left),
            Mode::Count { digits, value, is_trusted: false } => (4, digits, value),
            Mode::Announced { value } => (5, 0, value),
        }
    }

    pub(super) fn of_numbers(mode: u8, digits: u8, number: u64) -> Option<Mode> {
        match (mode, digits, number) {
            (0, ..) => Some(Mode::Undecided),
            (1, ..) => Some(Mode::Delimited),
            (2, 0, _) => Some(Mode::BehindCounted),
            (2 | 4, 1..=COUNT_DIGITS_MAX, 1..10_000_000_000) => {
                Some(Mode::Count { digits, value: number, is_trusted: mode == 2 })
            }
            (3, _, 1..10_000_000_000) => Some(Mode::Counted { left: number }),
            (5, _, 1..10_000_000_000) => Some(Mode::Announced { value: number }),
            _ => None,
        }
    }
}
