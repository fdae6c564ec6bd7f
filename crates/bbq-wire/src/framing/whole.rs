//! Whole: a connection is one message, and its end is the message's.
//!
//! A connection without bytes is no message. One that was reset is not whole: [`Whole::abort`].

use super::mode::Mode;
use super::partial::Partial;
use super::suspended::Suspended;
use super::{Frame, FramingRules};

/// Collects one connection.
#[derive(Debug, Default)]
pub struct Whole {
    partial: Partial,
}

impl Whole {
    /// A framer at the start of a connection; holds no buffer.
    #[must_use]
    pub fn new() -> Whole {
        Whole::default()
    }

    /// Takes the next bytes of the connection. Emits nothing, as the end has not come; `emit` keeps the framers' shape.
    pub fn push(&mut self, rules: &FramingRules, input: &[u8], _emit: &mut impl FnMut(Frame<'_>)) {
        self.partial.add(rules, input);
    }

    /// The connection has ended: emits the message. [`super::OnIncomplete`] does not apply, as nothing is missing.
    pub fn finish(&mut self, rules: &FramingRules, emit: &mut impl FnMut(Frame<'_>)) {
        self.finish_with(rules, &[], emit);
    }

    /// The connection has ended with `tail`, which is lent on as it is when nothing came before it: a small message that
    /// is read at once is never copied here.
    pub fn finish_with(&mut self, rules: &FramingRules, tail: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        if self.partial.is_open() {
            self.partial.add(rules, tail);
            self.partial.end(rules, false, emit);
        } else if !tail.is_empty() {
            rules.emit_whole(tail, emit);
        }
    }

    /// The connection was reset, or given up: the message is not complete, and no rule passes it on.
    pub fn abort(&mut self, emit: &mut impl FnMut(Frame<'_>)) {
        let bytes = self.partial.forget();
        if bytes > 0 {
            emit(Frame::Incomplete { bytes });
        }
    }

    /// Ends this framer, and returns its state for another framer to continue.
    #[must_use]
    pub fn suspend(self) -> Suspended {
        Suspended::of(self.partial, Mode::Undecided)
    }

    /// Continues from the state of another framer; `None` if that was no framer of whole messages.
    #[must_use]
    pub fn resume(suspended: Suspended) -> Option<Whole> {
        match suspended.into_parts()? {
            (partial, Mode::Undecided) => Some(Whole { partial }),
            _ => None,
        }
    }

    /// Gives up the message, to free its memory: the rest of the connection is skipped, and nothing is emitted for it. The caller counts
    /// it.
    pub fn give_up(&mut self) {
        self.partial.give_up();
    }

    /// Bytes of memory held beside the struct itself; 0 until the first [`Whole::push`].
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.partial.held_bytes()
    }
}
