//! Lines: LF ends a message, one CR before it is dropped.
//!
//! Empty lines are messages, and any other byte is content, NUL and broken UTF-8 included. A line over the limit costs
//! only itself: it is read to its LF, and the connection goes on.
//!
//! Invariant: what is emitted does not depend on how the input was split.

use memchr::{memchr, memchr_iter};

use super::mode::Mode;
use super::partial::Partial;
use super::suspended::Suspended;
use super::{Frame, FramingRules};

/// Cuts one connection into lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// The front of a line whose LF has not arrived.
    partial: Partial,
}

impl Lines {
    /// A framer at the start of a connection; holds no buffer.
    #[must_use]
    pub fn new() -> Lines {
        Lines::default()
    }

    /// Takes the next bytes of the connection and emits the lines that end in them.
    #[inline]
    pub fn push(&mut self, rules: &FramingRules, input: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        let mut rest = input;
        if self.partial.is_open() {
            let Some(at) = memchr(b'\n', rest) else { return self.partial.add(rules, rest) };
            self.partial.add(rules, &rest[..at]);
            self.partial.end(rules, true, emit);
            rest = &rest[at + 1..];
        }
        let mut from = 0;
        for at in memchr_iter(b'\n', rest) {
            rules.emit_whole(without_cr(&rest[from..at]), emit);
            from = at + 1;
        }
        self.partial.add(rules, &rest[from..]);
    }

    /// The connection has ended: emits what is left behind the last LF, as [`super::OnIncomplete`] says. A CR at its end
    /// stays, as no LF made it a delimiter.
    pub fn finish(&mut self, rules: &FramingRules, emit: &mut impl FnMut(Frame<'_>)) {
        self.partial.end_incomplete(rules, emit);
    }

    /// Ends this framer, and returns its state for another framer to continue.
    #[must_use]
    pub fn suspend(self) -> Suspended {
        Suspended::of(self.partial, Mode::Undecided)
    }

    /// Continues from the state of another framer; `None` if that was no framer of lines.
    #[must_use]
    pub fn resume(suspended: Suspended) -> Option<Lines> {
        match suspended.into_parts()? {
            (partial, Mode::Undecided) => Some(Lines { partial }),
            _ => None,
        }
    }

    /// Gives up the message whose end has not come, to free its memory: the rest of it is skipped, and nothing is emitted for it. The
    /// caller counts it. The next message is not affected.
    pub fn give_up(&mut self) {
        self.partial.give_up();
    }

    /// Bytes of memory held beside the struct itself; 0 between lines.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.partial.held_bytes()
    }
}

/// `line` without one CR at its end.
#[inline]
pub(super) fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
