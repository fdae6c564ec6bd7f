//! A connection of a pool's, in the hand of its owner, and the answer that is on its way there.
//!
//! Invariant: it is open, and no other process closes it.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use bbq_listen::for_prefork::{borrow_number, tcp_progress};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::ledger::{Entry, KEPT_BYTES_MAX, Ledger, Pending};

/// An answer that is about to be written, as it must be known when this process is killed in the middle of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingAnswer {
    /// Bytes to read after the answer is written: those of the requests that it answers, and what is kept from then on.
    pub input_bytes: usize,
    /// Bytes of the answer. With none, input is kept and nothing answered.
    pub output_bytes: usize,
    /// What its bytes depend on besides the requests: whoever comes after makes the same bytes of it.
    pub stamp: NonZeroU64,
    /// What is to be done when it is written, in the application's own numbers.
    pub mark: u32,
}

/// What is left to do for an answer that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfinishedAnswer {
    /// As it was when it was begun.
    pub answer: PendingAnswer,
    /// Bytes of `output_bytes`, at their end, that the kernel has not been given.
    pub unwritten_bytes: usize,
    /// Bytes of `input_bytes`, at their end, that wait to be read. All of them, as long as something is not written.
    pub unread_bytes: usize,
    /// What it is made of: what is kept, and `input_bytes`.
    pub looked: Looked,
}

/// What was seen of a connection's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked {
    /// Bytes that were kept of what was read before.
    pub kept: usize,
    /// Bytes behind them that wait to be read.
    pub unread: usize,
}

impl Looked {
    /// All of them.
    pub fn total(self) -> usize {
        self.kept + self.unread
    }
}

/// What a connection waits for after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// For more from its peer.
    Read,
    /// For the peer to take some of what was written.
    Write,
    /// For nothing: it has more to do, and others come first.
    Again,
    /// It is done: it is closed.
    Close,
}

/// A connection whose turn it is. Non-blocking.
#[derive(Debug)]
pub struct Connection<'a> {
    pub(crate) number: RawFd,
    pub(crate) entry: Entry<'a>,
    pub(crate) is_hung_up: bool,
}

impl<'a> Connection<'a> {
    /// The one with this number, if it belongs to `owner`.
    pub(crate) fn of(ledger: &'a Ledger, number: RawFd, owner: usize, is_hung_up: bool) -> Option<Self> {
        let entry = ledger.entry(number).filter(|entry| entry.owner() == owner)?;
        Some(Self { number, entry, is_hung_up })
    }

    /// Whether the peer will send no more than what waits now.
    pub fn is_hung_up(&self) -> bool {
        self.is_hung_up
    }

    /// Looks at what came, and reads nothing: what is kept of a request without an end, and behind it what waits. Nothing that
    /// waits means that the peer has ended.
    ///
    /// # Errors
    /// `Errno::AGAIN` if nothing waits, and what else the kernel says of the connection.
    pub fn look(&self, buffer: &mut [u8]) -> Result<Looked, Errno> {
        let kept = self.entry.kept_bytes();
        let (before, rest) = buffer.split_at_mut_checked(kept).ok_or(Errno::MSGSIZE)?;
        let (unread, _) = recv(self, rest, RecvFlags::DONTWAIT | RecvFlags::PEEK)?;
        self.entry.read_kept(before);
        Ok(Looked { kept, unread })
    }

    /// Before the first byte of an answer is written. `keep` is the end of what was looked at, if that is the beginning of a
    /// request: it must not stay unread, as the kernel keeps the whole packets that it is part of, and may tell the peer to send
    /// no more.
    ///
    /// # Errors
    /// `Errno::MSGSIZE` if `keep` is longer than [`KEPT_BYTES_MAX`], or a size has more than 32 bits.
    pub fn begin_answer(&self, answer: &PendingAnswer, keep: &[u8]) -> Result<(), Errno> {
        if keep.len() > KEPT_BYTES_MAX {
            return Err(Errno::MSGSIZE);
        }
        let output = u32::try_from(answer.output_bytes).map_err(|_| Errno::MSGSIZE)?;
        let input = u32::try_from(answer.input_bytes).map_err(|_| Errno::MSGSIZE)?;
        self.entry.set_pending(Pending { output, input, stamp: answer.stamp, mark: answer.mark }, keep);
        Ok(())
    }

    /// After its last byte is written and its requests are read.
    pub fn end_answer(&self) {
        self.entry.settle();
    }

    /// The answer that was begun and not ended: by this process, which could not write all of it, or by one before it, which
    /// died. To be asked at the beginning of a turn.
    ///
    /// # Errors
    /// Of kinds of sockets other than tcp the kernel does not tell how much was written: then nobody knows what is missing, and
    /// the connection can only be closed.
    pub fn unfinished_answer(&self) -> io::Result<Option<UnfinishedAnswer>> {
        let Some(pending) = self.entry.pending() else { return Ok(None) };
        let (base, now) = (self.entry.base(), tcp_progress(self.as_fd())?);
        let left = |all: u32, from: u64, to: u64| {
            // The peer's end and our own count as a byte each, after the last one.
            usize::try_from((from + u64::from(all)).saturating_sub(to))
                .map_err(|_| io::ErrorKind::InvalidData)
        };
        let (input_bytes, output_bytes) = (pending.input as usize, pending.output as usize);
        Ok(Some(UnfinishedAnswer {
            answer: PendingAnswer { input_bytes, output_bytes, stamp: pending.stamp, mark: pending.mark },
            unwritten_bytes: left(pending.output, base.written, now.written)?,
            unread_bytes: left(pending.input, base.read, now.read)?,
            looked: Looked { kept: self.entry.kept_bytes(), unread: input_bytes },
        }))
    }
}

impl AsFd for Connection<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        borrow_number(self.number)
    }
}
