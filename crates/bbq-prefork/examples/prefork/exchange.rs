//! Requests and answers on a connection that may change hands between any two instructions.
//!
//! It looks at what came, says in the ledger which answer it begins, writes it, and reads the requests then: so whoever has the
//! connection next finds either the request, or the request and how much of its answer is written. What an answer depends on
//! besides the request is its stamp: the second of its Date, and the process that it names.
//!
//! Invariant: between two turns nothing of a connection is in this process's memory.

use std::num::NonZeroU64;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bbq_listen::Errno;
use bbq_prefork::{Connection, KEPT_BYTES_MAX, PendingAnswer, Turn, UnfinishedAnswer};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::conversation::Next;
use crate::http::REQUEST_BYTES_MAX;
use crate::site::{Site, second_now};

/// Bytes looked at together: at least two of the longest requests that we take.
const LOOK_BYTES: usize = 16 * 1024;
/// What is the beginning of a request has not the length of a whole one.
const _: () = assert!(REQUEST_BYTES_MAX <= KEPT_BYTES_MAX && 2 * REQUEST_BYTES_MAX <= LOOK_BYTES);
/// The low bits of a stamp are the process (`PID_MAX_LIMIT` of linux/threads.h), those above the second.
const PID_BITS: u32 = 22;

/// The marks of an answer: what follows it.
const GO_ON: u32 = 0;
const CLOSE: u32 = 1;
const REFUSE: u32 = 2;

/// The exchanges of a process.
pub(crate) struct Exchange {
    pid: u64,
    site: Site,
    allow_block: bool,
    input: Box<[u8; LOOK_BYTES]>,
    output: Vec<u8>,
}

impl Exchange {
    pub(crate) fn new(allow_block: bool) -> Self {
        let pid = process::id().into();
        let site = site_of(pid, allow_block);
        Self { pid, site, allow_block, input: Box::new([0; LOOK_BYTES]), output: Vec::new() }
    }

    /// Answers what came, but no more than is looked at together; what is answered is added to `served`. A connection that is
    /// broken, or of which nobody knows what was written, is closed.
    pub(crate) fn turn(&mut self, connection: &Connection<'_>, served: &AtomicU64) -> Turn {
        let turn = match connection.unfinished_answer() {
            Ok(None) => self.answer(connection, served),
            Ok(Some(unfinished)) => self.finish(connection, unfinished, served),
            Err(_) => return Turn::Close,
        };
        match turn {
            Ok(turn) => turn,
            Err(Errno::AGAIN) => Turn::Read,
            Err(Errno::INTR) => Turn::Again,
            Err(_) => Turn::Close,
        }
    }

    fn answer(&mut self, connection: &Connection<'_>, served: &AtomicU64) -> Result<Turn, Errno> {
        let looked = connection.look(&mut self.input[..])?;
        if looked.unread == 0 {
            return Ok(Turn::Close);
        }
        let input = &self.input[..looked.total()];
        let second = second_now();
        let before = self.site.requests();
        self.output.clear();
        let (used, next) = self.site.answer_at(second, input, &mut self.output);
        // Half a request without another half to come is none.
        let is_all = next == Next::Read && input.len() < LOOK_BYTES;
        let (rest, mark) = match next {
            Next::Refuse => (Turn::Close, REFUSE),
            Next::Close => (Turn::Close, CLOSE),
            Next::Read if is_all && connection.is_hung_up() => (Turn::Close, CLOSE),
            Next::Read if is_all => (Turn::Read, GO_ON),
            Next::Read | Next::Write => (Turn::Again, GO_ON),
        };
        let (input_bytes, keep) = match (next, mark) {
            // What is left are requests, for the next turn.
            (Next::Write, _) => (used - looked.kept, &[][..]),
            (Next::Read, GO_ON) => (looked.unread, &input[used..]),
            // Before it is closed all that came is read: it would be reset otherwise.
            _ => (looked.unread, &[][..]),
        };
        let stamp = NonZeroU64::new(second << PID_BITS | self.pid).unwrap_or(NonZeroU64::MIN);
        let output_bytes = self.output.len();
        connection.begin_answer(&PendingAnswer { input_bytes, output_bytes, stamp, mark }, keep)?;
        if !write(connection, &self.output)? {
            return Ok(Turn::Write);
        }
        let turn = self.end(connection, input_bytes, mark, rest)?;
        served.fetch_add(self.site.requests() - before, Relaxed);
        Ok(turn)
    }

    /// Writes what is missing of an answer that was begun, by whomever.
    fn finish(
        &mut self,
        connection: &Connection<'_>,
        unfinished: UnfinishedAnswer,
        served: &AtomicU64,
    ) -> Result<Turn, Errno> {
        let UnfinishedAnswer { answer, unwritten_bytes, unread_bytes, looked } = unfinished;
        if unwritten_bytes > 0 {
            let input = self.input.get_mut(..looked.total()).ok_or(Errno::PROTO)?;
            let site = site_of(answer.stamp.get() & ((1 << PID_BITS) - 1), self.allow_block);
            self.output.clear();
            if connection.look(input)? == looked {
                site.answer_at(answer.stamp.get() >> PID_BITS, input, &mut self.output);
            }
            let written = answer.output_bytes.checked_sub(unwritten_bytes).ok_or(Errno::PROTO)?;
            if self.output.len() != answer.output_bytes {
                return Err(Errno::PROTO);
            }
            if !write(connection, &self.output[written..])? {
                return Ok(Turn::Write);
            }
            served.fetch_add(site.requests(), Relaxed);
        }
        self.end(connection, unread_bytes, answer.mark, Turn::Again)
    }

    /// After the last byte of an answer is written: reads its requests. The last answer of a connection is never said to have
    /// ended: so whoever has the connection next knows what is left to do.
    fn end(
        &mut self,
        connection: &Connection<'_>,
        mut unread_bytes: usize,
        mark: u32,
        rest: Turn,
    ) -> Result<Turn, Errno> {
        if mark == REFUSE {
            return discard(connection);
        }
        while unread_bytes > 0 {
            // Of tcp it is not copied once more.
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let (read, _) = recv(connection, &mut self.input[..unread_bytes], flags)?;
            unread_bytes = unread_bytes.checked_sub(read).filter(|_| read > 0).ok_or(Errno::PROTO)?;
        }
        if mark == CLOSE {
            return Ok(Turn::Close);
        }
        connection.end_answer();
        Ok(rest)
    }
}

fn site_of(author: u64, allow_block: bool) -> Site {
    Site::new(format!("process {author}\n").as_bytes(), allow_block)
}

/// Writes; answers false if something is left, of which the kernel knows how much.
fn write(connection: &Connection<'_>, mut output: &[u8]) -> Result<bool, Errno> {
    while !output.is_empty() {
        match send(connection, output, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(length) => output = &output[length..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

/// Says that no more is written, and throws away what comes until the peer has ended, too: closing before would reset the
/// connection, and the answer with it.
fn discard(connection: &Connection<'_>) -> Result<Turn, Errno> {
    shutdown(connection, Shutdown::Write)?;
    match recv(connection, &mut [0; 4096], RecvFlags::DONTWAIT)? {
        (0, _) => Ok(Turn::Close),
        _ => Ok(Turn::Again),
    }
}
