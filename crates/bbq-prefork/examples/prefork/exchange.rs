//! Requests and responses on a connection whose process may be killed at any moment.
//!
//! It peeks at the requests, notes in the ledger which response it begins, writes the response, and then reads the requests. So
//! a successor finds either the request, or the request and how much of its response is written. A response depends on the
//! request and on its stamp: the second of its Date, and the process that it names.
//!
//! Invariant: between two calls nothing of a connection is in this process's memory.

use std::io;
use std::num::NonZeroU64;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bbq_prefork::{Connection, KEPT_BYTES_MAX, Outcome, PendingResponse, UnfinishedResponse};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::conversation::Next;
use crate::http::REQUEST_BYTES_MAX;
use crate::site::{Site, second_now};

/// Bytes that are peeked at together: at least two of the longest requests.
const PEEK_BYTES: usize = 16 * 1024;
/// An incomplete request is shorter than the longest one.
const _: () = assert!(REQUEST_BYTES_MAX <= KEPT_BYTES_MAX && 2 * REQUEST_BYTES_MAX <= PEEK_BYTES);
/// The low bits of a stamp are the process (`PID_MAX_LIMIT` of linux/threads.h), the others are the second.
const PID_BITS: u32 = 22;

/// The marks of a response: what follows it.
const KEEP_OPEN: u32 = 0;
const CLOSE: u32 = 1;
const REFUSE: u32 = 2;

/// The exchanges of a process.
pub(crate) struct Exchange {
    pid: u64,
    site: Site,
    allow_block: bool,
    input: Box<[u8; PEEK_BYTES]>,
    output: Vec<u8>,
}

impl Exchange {
    pub(crate) fn new(allow_block: bool) -> Self {
        let pid = process::id().into();
        let site = site_of(pid, allow_block);
        Self { pid, site, allow_block, input: Box::new([0; PEEK_BYTES]), output: Vec::new() }
    }

    /// Answers the requests that are peeked at together, and adds their number to `served`. A connection is closed if it is
    /// broken, or if the kernel does not tell how much was written.
    pub(crate) fn handle(&mut self, connection: &Connection<'_>, served: &AtomicU64) -> Outcome {
        let outcome = match connection.unfinished_response() {
            Ok(None) => self.respond(connection, served),
            Ok(Some(unfinished)) => self.finish(connection, unfinished, served),
            Err(_) => return Outcome::Close,
        };
        match outcome {
            Ok(outcome) => outcome,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Outcome::AwaitInput,
                io::ErrorKind::Interrupted => Outcome::Yield,
                _ => Outcome::Close,
            },
        }
    }

    fn respond(&mut self, connection: &Connection<'_>, served: &AtomicU64) -> io::Result<Outcome> {
        let peeked = connection.peek(&mut self.input[..])?;
        if peeked.unread == 0 {
            return Ok(Outcome::Close);
        }
        let input = &self.input[..peeked.total()];
        let second = second_now();
        let before = self.site.requests();
        self.output.clear();
        let (used, next) = self.site.answer_at(second, input, &mut self.output);
        // An incomplete request of a peer that has ended gets no response.
        let is_all = next == Next::Read && input.len() < PEEK_BYTES;
        let (rest, mark) = match next {
            Next::Refuse => (Outcome::Close, REFUSE),
            Next::Close => (Outcome::Close, CLOSE),
            Next::Read if is_all && connection.is_hung_up() => (Outcome::Close, CLOSE),
            Next::Read if is_all => (Outcome::AwaitInput, KEEP_OPEN),
            Next::Read | Next::Write => (Outcome::Yield, KEEP_OPEN),
        };
        let (input_bytes, keep) = match (next, mark) {
            // The rest are requests for the next call.
            (Next::Write, _) => (used - peeked.kept, &[][..]),
            (Next::Read, KEEP_OPEN) => (peeked.unread, &input[used..]),
            // Everything is read before a close, which would reset the connection otherwise.
            _ => (peeked.unread, &[][..]),
        };
        let stamp = NonZeroU64::new(second << PID_BITS | self.pid).unwrap_or(NonZeroU64::MIN);
        let output_bytes = self.output.len();
        connection.begin_response(&PendingResponse { input_bytes, output_bytes, stamp, mark }, keep)?;
        if !write(connection, &self.output)? {
            return Ok(Outcome::AwaitRoom);
        }
        let outcome = self.end(connection, input_bytes, mark, rest)?;
        served.fetch_add(self.site.requests() - before, Relaxed);
        Ok(outcome)
    }

    /// Writes the missing part of a response that this process or a former one began.
    fn finish(
        &mut self,
        connection: &Connection<'_>,
        unfinished: UnfinishedResponse,
        served: &AtomicU64,
    ) -> io::Result<Outcome> {
        let UnfinishedResponse { response, unwritten_bytes, unread_bytes, input: peeked, .. } = unfinished;
        if unwritten_bytes > 0 {
            let input = self.input.get_mut(..peeked.total()).ok_or(io::ErrorKind::InvalidData)?;
            let site = site_of(response.stamp.get() & ((1 << PID_BITS) - 1), self.allow_block);
            self.output.clear();
            if connection.peek(input)? == peeked {
                site.answer_at(response.stamp.get() >> PID_BITS, input, &mut self.output);
            }
            let written =
                response.output_bytes.checked_sub(unwritten_bytes).ok_or(io::ErrorKind::InvalidData)?;
            if self.output.len() != response.output_bytes {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if !write(connection, &self.output[written..])? {
                return Ok(Outcome::AwaitRoom);
            }
            served.fetch_add(site.requests(), Relaxed);
        }
        self.end(connection, unread_bytes, response.mark, Outcome::Yield)
    }

    /// Reads the requests of a response whose last byte is written. The last response of a connection is never ended in the
    /// ledger, so a successor knows what is left to do.
    fn end(
        &mut self,
        connection: &Connection<'_>,
        mut unread_bytes: usize,
        mark: u32,
        rest: Outcome,
    ) -> io::Result<Outcome> {
        if mark == REFUSE {
            return discard(connection);
        }
        while unread_bytes > 0 {
            // With MSG_TRUNC, tcp discards the bytes without a copy.
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let (read, _) = recv(connection, &mut self.input[..unread_bytes], flags)?;
            unread_bytes =
                unread_bytes.checked_sub(read).filter(|_| read > 0).ok_or(io::ErrorKind::InvalidData)?;
        }
        if mark == CLOSE {
            return Ok(Outcome::Close);
        }
        connection.end_response();
        Ok(rest)
    }
}

fn site_of(author: u64, allow_block: bool) -> Site {
    Site::new(format!("process {author}\n").as_bytes(), allow_block)
}

/// Writes; returns false if something is left.
fn write(connection: &Connection<'_>, mut output: &[u8]) -> io::Result<bool> {
    while !output.is_empty() {
        match send(connection, output, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(length) => output = &output[length..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(true)
}

/// Ends our side, and discards input until the peer has ended, too: a close before that would reset the connection, and the
/// response would be lost.
fn discard(connection: &Connection<'_>) -> io::Result<Outcome> {
    shutdown(connection, Shutdown::Write)?;
    match recv(connection, &mut [0; 4096], RecvFlags::DONTWAIT)? {
        (0, _) => Ok(Outcome::Close),
        _ => Ok(Outcome::Yield),
    }
}
