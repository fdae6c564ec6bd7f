//! GELF over a stream (Graylog): NUL ends a message.
//!
//! Graylog can be told that LF ends them, and some senders end them so. The first message tells: if an LF comes before any NUL, behind a `}`,
//! LF and NUL both end the messages of the connection. An LF elsewhere is white space of JSON.
//!
//! White space in front of a message belongs to none, and an empty message is none. At the end of a connection, what ends with `}` is a message
//! without its delimiter; its parser knows whether it is whole.
//!
//! Not here: JSON. A message is passed on as it came.
//!
//! Invariant: what is emitted does not depend on how the input was split.

use memchr::{memchr, memchr2};

use super::mode::Mode;
use super::partial::Partial;
use super::suspended::Suspended;
use super::{Frame, FramingRules};

/// In [`Suspended::mode`]: which bytes end a message.
const MODES: [(u8, Ends); 3] = [(6, Ends::Undecided), (7, Ends::Nul), (8, Ends::LineFeed)];

/// Cuts one connection into messages of GELF.
#[derive(Debug, Default)]
pub struct Gelf {
    partial: Partial,
    ends: Ends,
    /// The last byte of the unfinished message that is no white space.
    last_visible: u8,
}

/// Which bytes end a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ends {
    /// None has come.
    #[default]
    Undecided,
    /// NUL.
    Nul,
    /// LF and NUL.
    LineFeed,
}

impl Gelf {
    /// A framer at the start of a connection; holds no buffer.
    #[must_use]
    pub fn new() -> Gelf {
        Gelf::default()
    }

    /// Takes the next bytes of the connection and emits the messages that end in them.
    pub fn push(&mut self, rules: &FramingRules, input: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        let mut rest = input;
        loop {
            if !self.partial.is_open() {
                rest = rest.trim_ascii_start();
                self.last_visible = 0;
            }
            if rest.is_empty() {
                return;
            }
            if self.ends == Ends::Undecided {
                self.decide(rest);
            }
            let end = match self.ends {
                Ends::Undecided => None,
                Ends::Nul => memchr(0, rest),
                Ends::LineFeed => memchr2(0, b'\n', rest),
            };
            let Some(at) = end else { return self.add(rules, rest) };
            if self.partial.is_open() {
                self.partial.add(rules, &rest[..at]);
                self.partial.end(rules, false, emit);
            } else if at > 0 {
                rules.emit_whole(&rest[..at], emit);
            }
            rest = &rest[at + 1..];
        }
    }

    /// The connection has ended: emits what is left.
    pub fn finish(&mut self, rules: &FramingRules, emit: &mut impl FnMut(Frame<'_>)) {
        if self.last_visible == b'}' && self.partial.is_open() {
            self.partial.end(rules, false, emit);
        } else {
            self.partial.end_incomplete(rules, emit);
        }
    }

    /// Ends this framer, and returns its state for another framer to continue.
    #[must_use]
    pub fn suspend(self) -> Suspended {
        let mode = MODES.iter().find(|(_, ends)| *ends == self.ends).map_or(0, |(mode, _)| *mode);
        Suspended { mode, digits: self.last_visible, ..Suspended::of(self.partial, Mode::Undecided) }
    }

    /// Continues from the state of another framer; `None` if that was no framer of GELF.
    #[must_use]
    pub fn resume(suspended: Suspended) -> Option<Gelf> {
        let Suspended { mode, digits: last_visible, .. } = suspended;
        let ends = match mode {
            // The start of a connection.
            0 => Ends::Undecided,
            _ => MODES.iter().find(|(known, _)| *known == mode)?.1,
        };
        let (partial, _) = Suspended { mode: 0, digits: 0, ..suspended }.into_parts()?;
        Some(Gelf { partial, ends, last_visible })
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

    /// Finds out what ends messages, if that is among the next bytes.
    fn decide(&mut self, input: &[u8]) {
        let Some(at) = memchr2(0, b'\n', input) else { return };
        let before = last_visible(&input[..at]).unwrap_or(self.last_visible);
        let is_line = input[at] == b'\n' && before == b'}';
        self.ends = if is_line { Ends::LineFeed } else { Ends::Nul };
    }

    /// Holds the front of a message.
    fn add(&mut self, rules: &FramingRules, bytes: &[u8]) {
        if let Some(last) = last_visible(bytes) {
            self.last_visible = last;
        }
        self.partial.add(rules, bytes);
    }
}

fn last_visible(bytes: &[u8]) -> Option<u8> {
    bytes.trim_ascii_end().last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::{OnIncomplete, OnOversize};

    fn cut(input: &[u8], piece: usize) -> Vec<String> {
        let rules = FramingRules {
            message_bytes_max: 20,
            on_oversize: OnOversize::Refuse,
            on_incomplete: OnIncomplete::Drop,
        };
        let (mut framer, mut found) = (Gelf::new(), Vec::new());
        let mut emit = |frame: Frame<'_>| {
            found.push(match frame {
                Frame::Message(message) => String::from_utf8_lossy(message).into_owned(),
                other => format!("{other:?}"),
            });
        };
        for piece in input.chunks(piece) {
            framer.push(&rules, piece, &mut emit);
            // In the middle of anything, as at an upgrade.
            framer = Gelf::resume(framer.suspend()).unwrap();
        }
        framer.finish(&rules, &mut emit);
        found
    }

    fn assert_cut(input: &[u8], expected: &[&str]) {
        for piece in 1..=input.len() {
            assert_eq!(cut(input, piece), expected, "{:?} by {piece}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn nul_ends_a_message_and_a_line_feed_is_white_space() {
        assert_cut(b"{\"a\":1}\0{\"b\":2}\0", &["{\"a\":1}", "{\"b\":2}"]);
        assert_cut(b"\0\0 {\n\"a\":{}\n}\0\n{}\n{}\0", &["{\n\"a\":{}\n}", "{}\n{}"]);
        assert_cut(b"text\n{}\n\0{}", &["text\n{}\n", "{}"]);
    }

    #[test]
    fn a_first_message_that_ends_with_a_line_feed_is_followed_by_others() {
        assert_cut(b"{\"a\":1}\r\n\r\n{}\n\0x\n{", &["{\"a\":1}\r", "{}", "x", "Incomplete { bytes: 1 }"]);
        assert_cut(b"\n {} \n{}\0{}\n", &["{} ", "{}", "{}"]);
    }

    #[test]
    fn what_is_left_at_the_end_is_a_message_if_it_may_be_whole() {
        assert_cut(b"{\"a\":1}", &["{\"a\":1}"]);
        assert_cut(b"{\"a\":1} \n", &["{\"a\":1} "]);
        assert_cut(b"{}\0{\"a\":", &["{}", "Incomplete { bytes: 5 }"]);
        assert_cut(b"{}\0 ", &["{}"]);
    }

    #[test]
    fn a_message_that_is_too_long_costs_only_itself() {
        let long = b"{\"a\":\"0123456789012345\"}\0{}\0";
        assert_cut(long, &["Oversize { bytes: 24 }", "{}"]);
        assert_cut(&long[..24], &["Oversize { bytes: 24 }"]);
    }

    #[test]
    fn the_state_of_another_framing_is_refused() {
        let syslog = Suspended { mode: 1, ..Suspended::default() };
        assert!(Gelf::resume(syslog).is_none());
        assert!(crate::framing::Lines::resume(Gelf::new().suspend()).is_none());
    }
}
