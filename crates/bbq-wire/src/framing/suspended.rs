//! The state of a framer in the middle of a connection, as plain values, so that another framer, even in another process, can
//! continue with the next byte.
//!
//! Not here: how the state travels. The code that moves the connection does that.

use super::mode::Mode;
use super::partial::Partial;

/// A framer between two reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspended {
    /// The front of a message whose end has not come.
    pub held: Vec<u8>,
    /// How many bytes arrived behind `held` and were dropped.
    pub lost: u64,
    /// The last byte of the message that arrived.
    pub last: u8,
    /// How syslog is framed: 0 undecided, 1 delimited, 2 in a count or behind a counted message, 3 in a counted message, 4 in what may be a
    /// count behind a delimited message, 5 behind that and its blank. How messages of GELF end: 6 undecided, 7 NUL, 8 LF. 0 for the others.
    pub mode: u8,
    /// How many digits of the count have arrived, in modes 2 and 4. In modes 6 to 8 the last byte that is no white space.
    pub digits: u8,
    /// In modes 2, 4 and 5, the value of these digits. In mode 3, how many bytes are missing: at least 1.
    pub number: u64,
    /// The rest of the message is skipped, and its end emits nothing.
    pub is_given_up: bool,
}

impl Suspended {
    pub(super) fn of(partial: Partial, mode: Mode) -> Suspended {
        let (held, lost, last, is_given_up) = partial.into_parts();
        let (mode, digits, number) = mode.to_numbers();
        Suspended { held, lost, last, mode, digits, number, is_given_up }
    }

    pub(super) fn into_parts(self) -> Option<(Partial, Mode)> {
        let mode = Mode::of_numbers(self.mode, self.digits, self.number)?;
        Some((Partial::of_parts(self.held, self.lost, self.last, self.is_given_up), mode))
    }
}
