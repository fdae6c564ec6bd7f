//! Syslog over a stream, RFC 6587. Where a message begins, its first bytes decide how it is framed:
//!
//! ```text
//! 1-9 digits SP    octet counting (section 3.4.1): MSG-LEN SP SYSLOG-MSG, MSG-LEN in decimal without leading zeros
//! any other        non-transparent framing (section 3.4.2): LF or NUL ends a message, one CR before an LF is dropped
//! ```
//!
//! A relay may pass on both on one connection, and a sender may count characters instead of bytes: what is left of such a message is a
//! message of its own up to the next LF, and those behind it are whole.
//!
//! Behind a delimited message, which may be of any text, a count is one only in front of a priority: `11 <34>`.
//!
//! Leniencies, each for a sender that exists: NUL is a trailer beside LF (Python's `SysLogHandler` ends with it). LF, CR
//! and NUL are passed over behind a counted message, as rsyslog does. An empty non-transparent frame is no message, so a sender may
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

/// Cuts one connection into syslog messages.
#[derive(Debug, Default)]
pub struct Syslog {
    partial: Partial,
    mode: Mode,
}

/// What stands where a message begins.
enum Start {
    /// A message that LF or NUL ends.
    Text,
    /// A count of so many bytes, with its blank, and its value.
    Count { bytes: usize, value: u64 },
    /// The input ends too early to tell.
    Unknown(Mode),
}

impl Syslog {
    /// A framer at the start of a connection; holds no buffer.
    #[must_use]
    pub fn new() -> Syslog {
        Syslog::default()
    }

    /// Takes the next bytes of the connection and emits the messages that end in them.
    pub fn push(&mut self, rules: &FramingRules, input: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        let mut rest = input;
        while !rest.is_empty() {
            rest = match self.mode {
                Mode::Undecided => self.begin(true, rest),
                Mode::BehindCounted => match rest[0] {
                    b'\n' | b'\r' | 0 => &rest[1..],
                    _ => self.begin(true, rest),
                },
                Mode::Delimited => self.take_delimited(rules, rest, emit),
                Mode::Count { .. } | Mode::Announced { .. } => self.take_count(rules, rest),
                Mode::Counted { left } => self.take_counted(rules, left, rest, emit),
            };
        }
    }

    /// The connection has ended: emits what is left, as [`super::OnIncomplete`] says. A count without any byte of its
    /// message is a message that is missing: it is incomplete, with 0 bytes, under any rule.
    pub fn finish(&mut self, rules: &FramingRules, emit: &mut impl FnMut(Frame<'_>)) {
        let is_announced = matches!(self.mode, Mode::Count { is_trusted: true, .. } | Mode::Counted { .. });
        if is_announced && !self.partial.is_open() {
            emit(Frame::Incomplete { bytes: 0 });
        } else {
            self.take_count_as_text(rules);
            self.partial.end_incomplete(rules, emit);
        }
        self.mode = Mode::Undecided;
    }

    /// Ends this framer, and returns its state for another framer to continue.
    #[must_use]
    pub fn suspend(self) -> Suspended {
        Suspended::of(self.partial, self.mode)
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

    /// Decides by the front of a message how it is framed. Returns what is not read.
    fn begin<'a>(&mut self, is_trusted: bool, rest: &'a [u8]) -> &'a [u8] {
        let (mode, read) = match start(is_trusted, rest) {
            Start::Text => (Mode::Delimited, 0),
            Start::Count { bytes, value } => (Mode::Counted { left: value }, bytes),
            Start::Unknown(mode) => (mode, rest.len()),
        };
        self.mode = mode;
        &rest[read..]
    }

    /// Takes delimited messages, up to a count that stands where a message begins. Returns what is not read.
    fn take_delimited<'a>(
        &mut self,
        rules: &FramingRules,
        mut rest: &'a [u8],
        emit: &mut impl FnMut(Frame<'_>),
    ) -> &'a [u8] {
        // The trailer that ends a message which began in an earlier input. What is held may be a CR alone.
        if self.partial.is_open() {
            let Some(at) = memchr2(b'\n', 0, rest) else {
                self.partial.add(rules, rest);
                return &[];
            };
            self.partial.add(rules, &rest[..at]);
            self.partial.end(rules, rest[at] == b'\n', &mut |frame| {
                if frame != Frame::Message(&[]) {
                    emit(frame);
                }
            });
            rest = &rest[at + 1..];
        }
        let may_be_count = |rest: &[u8]| matches!(rest.first(), Some(b'1'..=b'9'));
        if may_be_count(rest) && !matches!(start(false, rest), Start::Text) {
            return self.begin(false, rest);
        }
        let mut from = 0;
        for at in memchr2_iter(b'\n', 0, rest) {
            let frame = &rest[from..at];
            let message = if rest[at] == b'\n' { without_cr(frame) } else { frame };
            if !message.is_empty() {
                rules.emit_whole(message, emit);
            }
            from = at + 1;
            if may_be_count(&rest[from..]) && !matches!(start(false, &rest[from..]), Start::Text) {
                return self.begin(false, &rest[from..]);
            }
        }
        self.partial.add(rules, &rest[from..]);
        &[]
    }

    /// Goes on in a count that began in an earlier input. Returns what is not read.
    fn take_count<'a>(&mut self, rules: &FramingRules, rest: &'a [u8]) -> &'a [u8] {
        let next = match (self.mode, rest[0]) {
            (Mode::Count { digits, value, is_trusted }, byte) => count(digits, value, is_trusted, byte),
            (Mode::Announced { value }, b'<') => {
                // The priority is of the message.
                self.mode = Mode::Counted { left: value };
                return rest;
            }
            _ => None,
        };
        match next {
            Some(mode) => {
                self.mode = mode;
                &rest[1..]
            }
            None => {
                self.take_count_as_text(rules);
                rest
            }
        }
    }

    /// What has arrived of a count is the front of a delimited message.
    fn take_count_as_text(&mut self, rules: &FramingRules) {
        let text = match self.mode {
            Mode::Count { value, .. } => value.to_string(),
            Mode::Announced { value } => format!("{value} "),
            _ => return,
        };
        self.partial.add(rules, text.as_bytes());
        self.mode = Mode::Delimited;
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
            0 => Mode::BehindCounted,
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

/// The mode after the next byte of a count; `None` if it is none.
fn count(digits: u8, value: u64, is_trusted: bool, byte: u8) -> Option<Mode> {
    match (digits, byte) {
        (0, b'1'..=b'9') | (1..COUNT_DIGITS_MAX, b'0'..=b'9') => {
            Some(Mode::Count { digits: digits + 1, value: value * 10 + u64::from(byte - b'0'), is_trusted })
        }
        (1.., b' ') if is_trusted => Some(Mode::Counted { left: value }),
        (1.., b' ') => Some(Mode::Announced { value }),
        _ => None,
    }
}

/// Looks at the front of a message.
fn start(is_trusted: bool, rest: &[u8]) -> Start {
    let mut mode = Mode::Count { digits: 0, value: 0, is_trusted };
    for (at, byte) in rest.iter().enumerate() {
        let next = match mode {
            Mode::Count { digits, value, .. } => count(digits, value, is_trusted, *byte),
            Mode::Announced { value } if *byte == b'<' => return Start::Count { bytes: at, value },
            _ => None,
        };
        match next {
            Some(Mode::Counted { left }) => return Start::Count { bytes: at + 1, value: left },
            Some(next) => mode = next,
            None => return Start::Text,
        }
    }
    Start::Unknown(mode)
}
