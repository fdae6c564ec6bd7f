//! Syslog over a stream, RFC 6587. The first byte of a connection decides how its messages are framed:
//!
//! ```text
//! 1-9        octet counting (section 3.4.1): MSG-LEN SP SYSLOG-MSG, MSG-LEN in decimal without leading zeros
//! any other  non-transparent framing (section 3.4.2): LF or NUL ends a message, one CR before an LF is dropped
//! ```
//!
//! Leniencies, each for a sender that exists: NUL is a trailer beside LF (Python's `SysLogHandler` ends with it). LF, CR
//! and NUL are passed over before a count, as rsyslog does. An empty non-transparent frame is no message, so a sender may
//! end with LF and NUL both, and an empty line is not delivered.
//!
//! Not here: the fields of a message. Its bytes are passed on as they came.
//!
//! Invariant: what is emitted does not depend on how the input was split.

use memchr::{memchr2, memchr2_iter};

use super::lines::without_cr;
use super::mode::{COUNT_DIGITS_MAX, Mode};
use super::partial::Partial;
use super::suspended::Suspended;
use super::{Frame, FramingRules, OnOversize};

/// Why the rest of a connection cannot be read. It is the sender's fault; close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// There is no octet count where one belongs, so the start of the next message is unknown.
    #[error(
        "syslog octet count: byte {found:#04x} after {digits} digits, expected a count of 1 to 10 digits \
         without leading zeros and a space; the sender changed its framing or counts wrongly, close the connection"
    )]
    OctetCount {
        /// Digits of the count before it; 10 when it is a digit too many.
        digits: u8,
        /// The byte in place of a digit or a space.
        found: u8,
    },
}

/// Cuts one connection into syslog messages.
#[derive(Debug, Default)]
pub struct Syslog {
    partial: Partial,
    mode: Mode,
}

impl Syslog {
    /// A framer at the start of a connection; holds no buffer.
    #[must_use]
    pub fn new() -> Syslog {
        Syslog::default()
    }

    /// Takes the next bytes of the connection and emits the messages that end in them.
    ///
    /// # Errors
    /// [`FramingError::OctetCount`], after the messages before it are emitted, and again at every later call. The input
    /// behind the broken count is not read.
    pub fn push(
        &mut self,
        rules: &FramingRules,
        input: &[u8],
        emit: &mut impl FnMut(Frame<'_>),
    ) -> Result<(), FramingError> {
        if let (Mode::Undecided, Some(first)) = (&self.mode, input.first()) {
            self.mode = match first {
                b'1'..=b'9' => Mode::Count { digits: 0, value: 0 },
                _ => Mode::Delimited,
            };
        }
        match self.mode {
            Mode::Undecided => Ok(()),
            Mode::Delimited => {
                self.push_delimited(rules, input, emit);
                Ok(())
            }
            _ => self.push_counted(rules, input, emit),
        }
    }

    /// The connection has ended: emits what is left, as [`super::OnIncomplete`] says. A count without any byte of its
    /// message is a message that is missing: it is incomplete, with 0 bytes, under any rule.
    pub fn finish(&mut self, rules: &FramingRules, emit: &mut impl FnMut(Frame<'_>)) {
        let announced = match self.mode {
            Mode::Count { digits, .. } => digits > 0,
            Mode::Counted { .. } => true,
            Mode::Undecided | Mode::Delimited | Mode::Broken { .. } => false,
        };
        self.mode = Mode::Undecided;
        if announced && !self.partial.is_open() {
            emit(Frame::Incomplete { bytes: 0 });
        } else {
            self.partial.end_incomplete(rules, emit);
        }
    }

    /// Ends this framer, and returns its state for another framer to continue.
    #[must_use]
    pub fn suspend(self) -> Suspended {
        Suspended::of(self.partial, &self.mode)
    }

    /// Continues from the state of another framer; `None` if no framer can be in that state.
    #[must_use]
    pub fn resume(suspended: Suspended) -> Option<Syslog> {
        let (partial, mode) = suspended.into_parts()?;
        Some(Syslog { partial, mode })
    }

    /// Gives up the message whose end has not come, to free its memory: the rest of it is skipped, and nothing is emitted for it. The
    /// caller counts it. The next message is not affected.
    pub fn give_up(&mut self) {
        self.partial.give_up();
    }

    /// Bytes of memory held beside the struct itself; 0 between messages.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.partial.held_bytes()
    }

    fn push_delimited(&mut self, rules: &FramingRules, input: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        let mut rest = input;
        // The trailer that ends a message which began in an earlier input. What is held may be a CR alone.
        if self.partial.is_open() {
            let Some(at) = memchr2(b'\n', 0, rest) else { return self.partial.add(rules, rest) };
            self.partial.add(rules, &rest[..at]);
            self.partial.end(rules, rest[at] == b'\n', &mut |frame| {
                if frame != Frame::Message(&[]) {
                    emit(frame);
                }
            });
            rest = &rest[at + 1..];
        }
        let mut from = 0;
        for at in memchr2_iter(b'\n', 0, rest) {
            let frame = &rest[from..at];
            let message = if rest[at] == b'\n' { without_cr(frame) } else { frame };
            if !message.is_empty() {
                rules.emit_whole(message, emit);
            }
            from = at + 1;
        }
        self.partial.add(rules, &rest[from..]);
    }

    fn push_counted(
        &mut self,
        rules: &FramingRules,
        mut rest: &[u8],
        emit: &mut impl FnMut(Frame<'_>),
    ) -> Result<(), FramingError> {
        while let Some((byte, behind)) = rest.split_first() {
            match self.mode {
                Mode::Counted { left } => rest = self.take_counted(rules, left, rest, emit),
                Mode::Count { digits, value } => {
                    self.mode = count(digits, value, *byte);
                    rest = behind;
                }
                Mode::Undecided | Mode::Delimited | Mode::Broken { .. } => break,
            }
        }
        match self.mode {
            Mode::Broken { digits, found } => Err(FramingError::OctetCount { digits, found }),
            _ => Ok(()),
        }
    }

    /// Takes from `rest` the bytes of a message that lacks `left` bytes; returns the bytes behind them.
    fn take_counted<'a>(
        &mut self,
        rules: &FramingRules,
        left: u64,
        rest: &'a [u8],
        emit: &mut impl FnMut(Frame<'_>),
    ) -> &'a [u8] {
        let here = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
        let (bytes, behind) = rest.split_at(here);
        let left_behind = left - here as u64;
        let refused = rules.on_oversize == OnOversize::Refuse
            && self.partial.bytes() + left > u64::from(rules.message_bytes_max);
        self.mode = match left_behind {
            0 => Mode::Count { digits: 0, value: 0 },
            left => Mode::Counted { left },
        };
        if left_behind == 0 && !self.partial.is_open() {
            rules.emit_whole(bytes, emit);
            return behind;
        }
        if refused {
            self.partial.skip(bytes.len() as u64);
        } else {
            self.partial.add(rules, bytes);
        }
        if left_behind == 0 {
            self.partial.end(rules, false, emit);
        }
        behind
    }
}

/// The mode after the next byte of a count.
fn count(digits: u8, value: u64, byte: u8) -> Mode {
    match (digits, byte) {
        (0, b'\n' | b'\r' | 0) => Mode::Count { digits, value },
        (0, b'1'..=b'9') | (1..COUNT_DIGITS_MAX, b'0'..=b'9') => {
            Mode::Count { digits: digits + 1, value: value * 10 + u64::from(byte - b'0') }
        }
        (1.., b' ') => Mode::Counted { left: value },
        _ => Mode::Broken { digits, found: byte },
    }
}
