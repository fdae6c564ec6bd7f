//! How a connection of syslog is framed, and where in a frame it stands.

/// Digits of the longest count that is read; larger ones are not sizes but garbage.
pub(super) const COUNT_DIGITS_MAX: u8 = 10;

#[derive(Debug, Default)]
pub(super) enum Mode {
    /// No byte came yet.
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
    /// As `Suspended` has them. After a broken count the connection is closed, so nobody goes on from there.
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
