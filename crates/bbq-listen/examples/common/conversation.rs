//! A connection with requests and responses in order.
//!
//! The first read is made when the connection is accepted; the connection becomes a task only if it would block. A waiting
//! connection has no buffer, only the rest of a request or a response. All responses to one read are one write.
//!
//! Invariant: nothing is read while a response waits to be written, so a peer that does not read is not served.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use bbq_listen::AsyncConnection;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

/// Bytes of one read, with what was left of the read before: at least two of the longest requests that we take.
const READ_BYTES: usize = 16 * 1024;
/// Rounds of the event loop at the end: enough that every readable connection is served.
const LAST_ROUNDS: usize = 16;
/// Between two looks whether all are finished: nobody notices the time, and it costs nothing.
const LAST_PAUSE: Duration = Duration::from_millis(2);
/// The size of responses at which they are written. Above it the cost of a write is in the bytes, not in the call.
pub(crate) const OUTPUT_BYTES_ENOUGH: usize = 64 * 1024;

/// What happens to the connection after some responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The rest of the input is an incomplete request: read more.
    Read,
    /// The output has become large: write it, then ask again.
    Write,
    /// That was the last answer.
    Close,
    /// That was the last answer, and more input may come. It is read and discarded, as a close before that would reset the
    /// connection, and the answer would be lost.
    Refuse,
}

/// A protocol.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// Appends the answers to the requests in `input` to `output`; returns how much of `input` they used. A request that
    /// has no end within half of [`READ_BYTES`] must be refused.
    fn answer(&self, input: &[u8], output: &mut Vec<u8>) -> (usize, Next);
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Readable,
    Writable,
    /// Nothing: it has more to do, after the others.
    Turn,
    Ended,
}

struct Buffers {
    input: [u8; READ_BYTES],
    output: Vec<u8>,
}

thread_local! {
    /// The buffers of all connections of a worker, for the time of a call.
    static BUFFERS: RefCell<Box<Buffers>> =
        RefCell::new(Box::new(Buffers { input: [0; READ_BYTES], output: Vec::new() }));
    /// How many connections of the worker are in the middle of a request or of a response.
    static UNFINISHED: Cell<usize> = const { Cell::new(0) };
}

/// Serves an accepted connection: as far as possible at once, the rest in a task.
pub(crate) fn begin<P: Protocol + Clone>(stream: OwnedFd, protocol: &P) {
    let mut state = State::default();
    let wait = state.advance(stream.as_fd(), protocol);
    if wait != Wait::Ended {
        // A response must not wait for the acknowledgement of the one before it. Unix sockets refuse the option, and do not need
        // it.
        let _ = sockopt::set_tcp_nodelay(&stream, true);
        tokio::spawn(go_on(stream, state, wait, protocol.clone()));
    }
}

/// Serves readable connections before the runtime, and all connections, end. Those in the middle of a request or of a response are
/// finished, for as long as the run may take to stop.
pub(crate) async fn last_turns() {
    for _ in 0..LAST_ROUNDS {
        tokio::task::yield_now().await;
    }
    while UNFINISHED.get() > 0 {
        tokio::time::sleep(LAST_PAUSE).await;
    }
}

async fn go_on<P: Protocol>(stream: OwnedFd, mut state: State, mut wait: Wait, protocol: P) {
    // Without memory for a registration the connection can only be closed.
    let Ok(connection) = AsyncConnection::for_both(stream) else { return };
    loop {
        let ready = match wait {
            Wait::Readable => connection.readable().await,
            Wait::Writable => connection.writable().await,
            Wait::Turn => {
                tokio::task::yield_now().await;
                wait = state.advance(connection.as_fd(), &protocol);
                continue;
            }
            Wait::Ended => return,
        };
        let Ok(mut ready) = ready else { return };
        let next = state.advance(connection.as_fd(), &protocol);
        if next == wait {
            ready.clear_ready();
        }
        wait = next;
    }
}

/// What a connection keeps while it waits.
#[derive(Debug, Default)]
struct State {
    /// Not answered yet. At most `READ_BYTES`.
    input: Vec<u8>,
    /// Not written yet.
    output: Vec<u8>,
    /// What follows when `output` is written.
    then: Option<Next>,
    /// Whether the connection is among the `UNFINISHED`.
    unfinished: bool,
}

impl State {
    /// Writes, answers and reads until it would block, but reads no more than one full buffer.
    fn advance(&mut self, stream: BorrowedFd<'_>, protocol: &impl Protocol) -> Wait {
        let wait = self.go(stream, protocol);
        self.count(!self.input.is_empty() || !self.output.is_empty());
        wait
    }

    fn count(&mut self, unfinished: bool) {
        match (std::mem::replace(&mut self.unfinished, unfinished), unfinished) {
            (false, true) => UNFINISHED.set(UNFINISHED.get() + 1),
            (true, false) => UNFINISHED.set(UNFINISHED.get() - 1),
            _ => {}
        }
    }

    fn go(&mut self, stream: BorrowedFd<'_>, protocol: &impl Protocol) -> Wait {
        let output = std::mem::take(&mut self.output);
        if let Err(wait) = self.write(stream, &output) {
            return wait;
        }
        match self.then {
            Some(Next::Close) => Wait::Ended,
            Some(Next::Refuse) => discard(stream),
            _ => BUFFERS.with_borrow_mut(|buffers| self.converse(stream, protocol, buffers)),
        }
    }

    fn converse(&mut self, stream: BorrowedFd<'_>, protocol: &impl Protocol, buffers: &mut Buffers) -> Wait {
        let Buffers { input, output } = buffers;
        let mut filled = self.input.len();
        input[..filled].copy_from_slice(&self.input);
        self.input.clear();
        let mut used = 0;
        let mut drained = None;
        loop {
            while used < filled {
                output.clear();
                let (length, next) = protocol.answer(&input[used..filled], output);
                used += length;
                self.then = Some(next);
                if let Err(wait) = self.write(stream, output) {
                    self.input.extend_from_slice(&input[used..filled]);
                    return wait;
                }
                match next {
                    Next::Write => {}
                    Next::Read => break,
                    Next::Close => return Wait::Ended,
                    Next::Refuse => return discard(stream),
                }
            }
            if let Some(wait) = drained {
                self.input.extend_from_slice(&input[used..filled]);
                return wait;
            }
            input.copy_within(used..filled, 0);
            (filled, used) = (filled - used, 0);
            let room = READ_BYTES - filled;
            // A short read means that nothing is left, and the next byte wakes the task.
            match recv(stream, &mut input[filled..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Wait::Ended,
                Ok((length, _)) => {
                    filled += length;
                    drained = Some(if length < room { Wait::Readable } else { Wait::Turn });
                }
                Err(Errno::AGAIN) => drained = Some(Wait::Readable),
                Err(Errno::INTR) => drained = Some(Wait::Turn),
                Err(_) => return Wait::Ended,
            }
        }
    }

    /// Writes all of `output`, or keeps the rest and says what to wait for.
    fn write(&mut self, stream: BorrowedFd<'_>, mut output: &[u8]) -> Result<(), Wait> {
        while !output.is_empty() {
            match send(stream, output, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(length) => output = &output[length..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.output = output.to_vec();
                    return Err(Wait::Writable);
                }
                Err(_) => return Err(Wait::Ended),
            }
        }
        Ok(())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.count(false);
    }
}

/// Ends our side, and discards input until the peer has ended, too.
fn discard(stream: BorrowedFd<'_>) -> Wait {
    if shutdown(stream, Shutdown::Write).is_err() {
        return Wait::Ended;
    }
    let mut waste = [0; 4096];
    match recv(stream, &mut waste, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Wait::Ended,
        Ok(_) | Err(Errno::INTR) => Wait::Turn,
        Err(Errno::AGAIN) => Wait::Readable,
        Err(_) => Wait::Ended,
    }
}
