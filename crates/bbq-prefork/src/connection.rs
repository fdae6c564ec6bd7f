//! A connection that a child is handling, and the response that is being written to it.
//!
//! Invariant: the connection is open, and no other process closes it.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;

use bbq_listen::for_prefork::tcp_progress;
use rustix::net::{RecvFlags, recv};

use crate::ledger::{Entry, KEPT_BYTES_MAX, Ledger, Pending};
use crate::numbers;

/// A response that is about to be written: what a successor must know if this process is killed while it writes. [`Connection`] has an
/// example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingResponse {
    /// Bytes to read after the response is written: those of its requests, and those that are kept from then on.
    pub input_bytes: usize,
    /// Bytes of the response; 0 to keep input without a response.
    pub output_bytes: usize,
    /// What the bytes depend on besides the requests, so that a successor can make the same bytes.
    pub stamp: NonZeroU64,
    /// A number of the application that says what follows the response.
    pub mark: u32,
}

/// What is left to do for a response that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedResponse {
    /// The response, as it was begun.
    pub response: PendingResponse,
    /// How many of the last bytes of the response the kernel has not taken.
    pub unwritten_bytes: usize,
    /// How many of the last `input_bytes` are not read. All of them, as long as something is not written.
    pub unread_bytes: usize,
    /// The input that the response was made of.
    pub input: PeekedInput,
}

/// How much of a connection's input there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeekedInput {
    /// Bytes that were read and kept in the ledger.
    pub kept: usize,
    /// Bytes after them that the kernel has, unread.
    pub unread: usize,
}

impl PeekedInput {
    /// Both together.
    pub fn total(self) -> usize {
        self.kept + self.unread
    }
}

/// What happens to a connection after it was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Handle it when its peer has sent more.
    AwaitInput,
    /// Handle it when there is room to write.
    AwaitRoom,
    /// Handle it again after other connections: it has more to do.
    Yield,
    /// Close it.
    Close,
}

/// A connection that is being handled. It is non-blocking.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io;
/// use std::num::NonZeroU64;
///
/// use bbq_prefork::{Connection, Outcome, PendingResponse};
/// use rustix::io::Errno;
/// use rustix::net::{RecvFlags, SendFlags, recv, send};
///
/// /// Sends each message back. If this process is killed in between, its successor sends what is missing.
/// fn echo(connection: &Connection<'_>) -> io::Result<Outcome> {
///     let mut buffer = [0; 4096];
///     let (from, length) = match connection.unfinished_response()? {
///         Some(unfinished) => {
///             let total = unfinished.input.total();
///             if unfinished.unwritten_bytes > 0 {
///                 connection.peek(&mut buffer[..total])?;
///             }
///             (total - unfinished.unwritten_bytes, unfinished.unread_bytes)
///         }
///         None => {
///             let length = connection.peek(&mut buffer)?.unread;
///             if length == 0 {
///                 return Ok(Outcome::Close);
///             }
///             let response = PendingResponse {
///                 input_bytes: length,
///                 output_bytes: length,
///                 stamp: NonZeroU64::MIN,
///                 mark: 0,
///             };
///             connection.begin_response(&response, &[])?;
///             (0, length)
///         }
///     };
///     let mut written = from;
///     while written < length {
///         match send(connection, &buffer[written..length], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
///             Ok(sent) => written += sent,
///             Err(Errno::AGAIN) => return Ok(Outcome::AwaitRoom),
///             Err(errno) => return Err(errno.into()),
///         }
///     }
///     let _read = recv(connection, &mut buffer[..length], RecvFlags::DONTWAIT)?;
///     connection.end_response();
///     Ok(Outcome::AwaitInput)
/// }
///
/// let group = bbq_listen::Group::at("127.0.0.1:7701")?.workers(4).open()?;
/// let pool = bbq_prefork::PreforkPool::start(&group, |child| {
///     child.serve(|connection| match echo(connection) {
///         Ok(outcome) => outcome,
///         // Nothing is there to read.
///         Err(error) if error.kind() == io::ErrorKind::WouldBlock => Outcome::AwaitInput,
///         Err(_) => Outcome::Close,
///     })
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connection<'a> {
    pub(crate) number: RawFd,
    pub(crate) entry: Entry<'a>,
    pub(crate) is_hung_up: bool,
}

impl<'a> Connection<'a> {
    /// The connection with this descriptor number, if it belongs to `owner`, who begins to handle it now.
    pub(crate) fn of(ledger: &'a Ledger, number: RawFd, owner: usize, is_hung_up: bool) -> Option<Self> {
        let entry = ledger.entry(number)?;
        if entry.take(owner)?.handed {
            ledger.child(owner).handed().fetch_sub(1, Relaxed);
        }
        Some(Self { number, entry, is_hung_up })
    }

    /// The connection that the caller has accepted a moment ago, which it handles already.
    pub(crate) fn accepted(ledger: &'a Ledger, number: RawFd) -> Option<Self> {
        Some(Self { number, entry: ledger.entry(number)?, is_hung_up: false })
    }

    /// Whether the peer has ended its side.
    pub fn is_hung_up(&self) -> bool {
        self.is_hung_up
    }

    /// Copies the kept beginning of a request and the unread bytes after it into `buffer`, and reads nothing. If `unread` is 0,
    /// the peer has ended its side.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there to read, and any error of recv(2).
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<PeekedInput> {
        let kept = self.entry.kept_bytes();
        let (before, rest) = buffer.split_at_mut_checked(kept).ok_or(io::ErrorKind::InvalidInput)?;
        let (unread, _) = recv(self, rest, RecvFlags::DONTWAIT | RecvFlags::PEEK)?;
        self.entry.read_kept(before);
        Ok(PeekedInput { kept, unread })
    }

    /// Call this before the first byte of a response is written. `keep` is the beginning of the next request, at the end of the
    /// input. It must not stay unread: the kernel keeps the whole packets that it is part of, and may stop the peer.
    ///
    /// # Errors
    /// `InvalidInput` if `keep` is longer than [`KEPT_BYTES_MAX`], or a size has more than 32 bits.
    pub fn begin_response(&self, answer: &PendingResponse, keep: &[u8]) -> io::Result<()> {
        if keep.len() > KEPT_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let output = u32::try_from(answer.output_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let input = u32::try_from(answer.input_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.entry.set_pending(Pending { output, input, stamp: answer.stamp, mark: answer.mark }, keep);
        Ok(())
    }

    /// Call this after the last byte of a response is written and its requests are read.
    pub fn end_response(&self) {
        self.entry.settle();
    }

    /// The response that was begun and not ended: by this process, which could not write all of it, or by a former one, which
    /// died. Call this first for each event.
    ///
    /// # Errors
    /// For sockets other than tcp the kernel does not tell how much was written; the connection can only be closed.
    pub fn unfinished_response(&self) -> io::Result<Option<UnfinishedResponse>> {
        let Some(pending) = self.entry.pending() else { return Ok(None) };
        let (base, now) = (self.entry.base(), tcp_progress(self.as_fd())?);
        let left = |all: u32, from: u64, to: u64| {
            // The kernel counts the FIN of either side as one more byte.
            usize::try_from((from + u64::from(all)).saturating_sub(to))
                .map_err(|_| io::ErrorKind::InvalidData)
        };
        let (input_bytes, output_bytes) = (pending.input as usize, pending.output as usize);
        Ok(Some(UnfinishedResponse {
            response: PendingResponse { input_bytes, output_bytes, stamp: pending.stamp, mark: pending.mark },
            unwritten_bytes: left(pending.output, base.written, now.written)?,
            unread_bytes: left(pending.input, base.read, now.read)?,
            input: PeekedInput { kept: self.entry.kept_bytes(), unread: input_bytes },
        }))
    }
}

impl AsFd for Connection<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        numbers::borrow(self.number)
    }
}
