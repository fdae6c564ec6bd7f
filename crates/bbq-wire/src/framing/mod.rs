//! Text framings: they find the end of a message whose sender knows nothing of batches. Each connection has a framer.
//!
//! | framing | a message is | module |
//! |---|---|---|
//! | lines | what ends with LF | [`Lines`] |
//! | syslog | a counted or delimited frame of RFC 6587 | [`Syslog`] |
//! | whole | all of a connection | [`Whole`] |
//! | GELF | what ends with NUL, or with LF if the first message does | [`Gelf`] |
//! | any of them in a datagram | by its kind | [`datagram`] |
//!
//! Not here: what a message means (no syslog field is read), who sent it, and where it goes.
//!
//! Invariant: a message that is whole in the input is borrowed from it; only a message that is not whole yet is copied.
//! Invariant: a framer holds at most one byte more than the limit, and no buffer while it holds no byte.
//! Invariant: every byte is in an emitted frame, is a delimiter, or is of a message that the caller gave up.
//! A frame reports every other loss.

mod datagram;
mod gelf;
mod lines;
mod mode;
mod partial;
mod suspended;
mod syslog;
mod whole;

pub use datagram::datagram;
pub use gelf::Gelf;
pub use lines::Lines;
pub use suspended::Suspended;
pub use syslog::Syslog;
pub use whole::Whole;

/// What to do with a message over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnOversize {
    /// None of it is passed on: [`Frame::Oversize`].
    #[default]
    Refuse,
    /// Its front is passed on: [`Frame::Cut`].
    Cut,
}

/// What to do with the last message of a connection when its end never came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnIncomplete {
    /// It is not passed on: [`Frame::Incomplete`].
    #[default]
    Drop,
    /// The part that arrived is passed on as a message.
    Keep,
}

/// A listener's rules. Each call takes them, so that a framer is small and a reload reaches open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingRules {
    /// The largest message, without its delimiter.
    pub message_bytes_max: u32,
    /// What to do with a larger one.
    pub on_oversize: OnOversize,
    /// What to do with a message that has no end.
    pub on_incomplete: OnIncomplete,
}

/// What a framer found. Each frame is one message of the sender, passed on or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A message, without its delimiter; may be empty where the framing has empty messages.
    Message(&'a [u8]),
    /// The front of a message over the limit.
    Cut {
        /// The first `message_bytes_max` bytes.
        message: &'a [u8],
        /// How many bytes followed them.
        lost_bytes: u64,
    },
    /// A message over the limit, of which nothing was kept.
    Oversize {
        /// Its size; if the message also had no end, the bytes that arrived.
        bytes: u64,
    },
    /// A message without an end: the connection ended first.
    Incomplete {
        /// The bytes that arrived.
        bytes: u64,
    },
}

impl FramingRules {
    /// Emits a message that is whole in one place.
    #[inline]
    fn emit_whole(&self, message: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
        if message.len() as u64 <= u64::from(self.message_bytes_max) {
            emit(Frame::Message(message));
        } else {
            self.emit_oversize(message, message.len() as u64, emit);
        }
    }

    /// Emits a message of `bytes` bytes that is too large; `front` is the part of it that is there.
    #[cold]
    fn emit_oversize(&self, front: &[u8], bytes: u64, emit: &mut impl FnMut(Frame<'_>)) {
        match self.on_oversize {
            OnOversize::Refuse => emit(Frame::Oversize { bytes }),
            OnOversize::Cut => {
                let message = &front[..front.len().min(self.message_bytes_max as usize)];
                emit(Frame::Cut { message, lost_bytes: bytes - message.len() as u64 });
            }
        }
    }
}
