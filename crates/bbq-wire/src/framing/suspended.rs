//! Where a framer stands in the middle of a connection, as plain values: so that another, also in another process, goes on
//! with the next byte.
//!
//! Not here: how it travels; that is for whoever moves the connection.

use super::mode::Mode;
use super::partial::Partial;

/// A framer between two reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspended {
    /// The front of a message whose end has not come.
    pub held: Vec<u8>,
    /// Bytes that came behind `held` and were let go.
    pub lost: u64,
    /// The last byte that came of it.
    pub last: u8,
    /// How syslog is framed: 0 undecided, 1 delimited, 2 in a count, 3 in a counted message. 0 for the others.
    pub mode: u8,
    /// Digits of the count that came; only in mode 2.
    pub digits: u8,
    /// What they say in mode 2; bytes that are missing in mode 3, where it is not 0.
    pub number: u64,
}

impl Suspended {
    pub(super) fn of(partial: Partial, mode: &Mode) -> Suspended {
        let (held, lost, last) = partial.into_parts();
        let (mode, digits, number) = mode.to_numbers();
        Suspended { held, lost, last, mode, digits, number }
    }

    pub(super) fn into_parts(self) -> Option<(Partial, Mode)> {
        let mode = Mode::of_numbers(self.mode, self.digits, self.number)?;
        Some((Partial::of_parts(self.held, self.lost, self.last), mode))
    }
}
