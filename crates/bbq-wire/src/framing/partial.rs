//! A message of which only the front has arrived: the only buffer of a framer.
//!
//! Not here: where the message ends. The framers find that.
//!
//! Invariant: `held` has at most `message_bytes_max + 1` bytes, and no capacity while it is empty. The additional byte is for
//! a CR that may turn out to belong to the delimiter.

use super::{Frame, FramingRules, OnIncomplete, OnOversize};

#[derive(Debug, Default)]
pub(super) struct Partial {
    held: Vec<u8>,
    /// How many bytes arrived behind `held` and were dropped; once > 0, nothing is added to `held`.
    lost: u64,
    /// The last byte that arrived, held or lost.
    last: u8,
    /// The message was given up: its end emits nothing. `held` is empty.
    is_given_up: bool,
}

impl Partial {
    /// Whether any byte of the message has arrived.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.bytes() > 0
    }

    /// How many bytes have arrived.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.held.len() as u64 + self.lost
    }

    /// Bytes of memory that it takes beside its own fields.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    pub(super) fn into_parts(self) -> (Vec<u8>, u64, u8, bool) {
        (self.held, self.lost, self.last, self.is_given_up)
    }

    pub(super) fn of_parts(held: Vec<u8>, lost: u64, last: u8, is_given_up: bool) -> Partial {
        let mut partial = Partial { held, lost, last, is_given_up: false };
        if is_given_up {
            partial.give_up();
        }
        partial
    }

    /// Takes the next bytes of the message, and drops those beyond the limit.
    pub(super) fn add(&mut self, rules: &FramingRules, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.last = *last;
        let most = (rules.message_bytes_max as usize).saturating_add(1);
        let wanted = self.held.len().saturating_add(bytes.len());
        if self.lost == 0 && wanted <= most {
            self.grow(wanted, most);
            self.held.extend_from_slice(bytes);
            return;
        }
        let all = self.bytes() + bytes.len() as u64;
        if rules.on_oversize == OnOversize::Refuse {
            self.held = Vec::new();
        } else if self.lost == 0 {
            // The rules may have changed since bytes were held: `held` can be over the limit by now.
            let room = most.saturating_sub(self.held.len()).min(bytes.len());
            self.grow(self.held.len() + room, most);
            self.held.extend_from_slice(&bytes[..room]);
        }
        self.lost = all - self.held.len() as u64;
    }

    /// Takes the next bytes of a message that will be refused, and holds none of them.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.lost += bytes + self.held.len() as u64;
        self.held = Vec::new();
    }

    /// Lets go of the buffer, and emits nothing when the message ends. Only for a message of which a byte has arrived.
    pub(super) fn give_up(&mut self) {
        self.skip(0);
        self.is_given_up = self.is_open();
    }

    /// The message has its end: emits it and lets go of the buffer. With `drop_cr`, one CR at its end is the
    /// delimiter's.
    pub(super) fn end(&mut self, rules: &FramingRules, drop_cr: bool, emit: &mut impl FnMut(Frame<'_>)) {
        let mut partial = std::mem::take(self);
        if partial.is_given_up {
            return;
        }
        if drop_cr && partial.is_open() && partial.last == b'\r' {
            if partial.lost > 0 {
                partial.lost -= 1;
            } else {
                partial.held.pop();
            }
        }
        if partial.lost > 0 {
            partial.emit_oversize(rules, emit);
        } else {
            rules.emit_whole(&partial.held, emit);
        }
    }

    /// The connection ended before the message did. Emits nothing if no byte of the message has arrived.
    pub(super) fn end_incomplete(&mut self, rules: &FramingRules, emit: &mut impl FnMut(Frame<'_>)) {
        let partial = std::mem::take(self);
        let bytes = partial.bytes();
        if bytes == 0 || partial.is_given_up {
            return;
        }
        let oversize = partial.lost > 0 || bytes > u64::from(rules.message_bytes_max);
        match (oversize, rules.on_incomplete) {
            (true, _) if rules.on_oversize == OnOversize::Refuse => emit(Frame::Oversize { bytes }),
            (_, OnIncomplete::Drop) => emit(Frame::Incomplete { bytes }),
            (true, OnIncomplete::Keep) => partial.emit_oversize(rules, emit),
            (false, OnIncomplete::Keep) => emit(Frame::Message(&partial.held)),
        }
    }

    /// Forgets the message; returns how many of its bytes arrived, or 0 if it was given up before.
    pub(super) fn forget(&mut self) -> u64 {
        let partial = std::mem::take(self);
        if partial.is_given_up { 0 } else { partial.bytes() }
    }

    fn emit_oversize(&self, rules: &FramingRules, emit: &mut impl FnMut(Frame<'_>)) {
        if self.held.is_empty() {
            // It was refused when it arrived, even if the rules have changed since.
            emit(Frame::Oversize { bytes: self.bytes() });
        } else {
            rules.emit_oversize(&self.held, self.bytes(), emit);
        }
    }

    /// Doubles as a vector does, but never over `most`.
    fn grow(&mut self, wanted: usize, most: usize) {
        if wanted > self.held.capacity() {
            let capacity = wanted.max(self.held.capacity().saturating_mul(2).min(most));
            self.held.reserve_exact(capacity - self.held.len());
        }
    }
}
