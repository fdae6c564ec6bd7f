//! Reads text connections through the worker's buffer.

use bbq_stored::{DropReason, Identity};
use bbq_wire::Peer;
use rustix::io::Errno;

use super::framer::Framer;
use crate::worker::intake::Intake;
use crate::worker::limits::READ_BYTES;
use crate::worker::memory_budget::{Held, MemoryShare};
use crate::worker::stream::tls::RECORD_BYTES_MAX;
use crate::worker::text::connection::Connection;

/// Bytes of one read at a listener that limits the messages of an address: what an address sends too much in one read, it waits for
/// afterwards. A record of TLS has to fit.
const LIMITED_READ_BYTES: usize = 32 * 1024;
const _: () = assert!(RECORD_BYTES_MAX < LIMITED_READ_BYTES && LIMITED_READ_BYTES <= READ_BYTES);

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// More bytes may be there.
    More,
    /// Bytes were read, and the socket is empty now.
    Drained,
    /// Nothing was there.
    Blocked,
    /// The connection is over: its sender ended it, it broke, or it must be closed.
    Finished,
}

impl Intake {
    /// Reads a connection once through the worker's buffer and takes every complete message.
    pub(crate) fn read(&self, listener_index: usize, connection: &mut Connection) -> ReadOutcome {
        let outcome = self.read_and_take(listener_index, connection);
        if outcome == ReadOutcome::Finished {
            self.buffers.memory.release(&mut connection.memory);
        }
        outcome
    }

    fn read_and_take(&self, listener_index: usize, connection: &mut Connection) -> ReadOutcome {
        let Connection { stream, framer, peer, memory, last_active, .. } = connection;
        let peer = *peer;
        let listener = &self.listeners[listener_index];
        let mut buffer = self.buffers.buffer.borrow_mut();
        // At a stop everything is taken that is there.
        let is_limited = listener.has_rate() && !self.stopping.has_begun();
        let length = if is_limited { LIMITED_READ_BYTES } else { buffer.len() };
        let bytes = match stream.read(&mut buffer[..length]) {
            Ok(bytes) => bytes,
            Err(Errno::AGAIN) => return ReadOutcome::Blocked,
            Err(Errno::INTR) => return ReadOutcome::More,
            Err(_) => {
                listener.report_tls(peer, stream.take_failure());
                self.frames(listener_index, peer, |rules, emit| framer.abort(rules, emit));
                return ReadOutcome::Finished;
            }
        };
        if bytes == 0 {
            let taken = self.frames(listener_index, peer, |rules, emit| framer.finish(rules, emit));
            listener.add_to_rate(peer, taken);
            return ReadOutcome::Finished;
        }
        *last_active = self.view.active_sessions.now();
        let held_before = framer.held_bytes();
        let mut pushed = Ok(());
        let taken = self
            .frames(listener_index, peer, |rules, emit| pushed = framer.push(rules, &buffer[..bytes], emit));
        listener.add_to_rate(peer, taken);
        if let Err(error) = pushed {
            listener.ledger.add_refused(1);
            if let Some(repeats) = listener.peer_problems.report() {
                tracing::warn!(listener = listener.spec.source, ?peer, %error, repeats, "connection closed");
            }
            return ReadOutcome::Finished;
        }
        let held = framer.held_bytes();
        if (held_before > 0 || held > 0) && !self.may_hold(memory, held, peer, taken > 0) {
            self.buffers.memory.release(memory);
            if !self.give_up(listener_index, framer) {
                return ReadOutcome::Finished;
            }
        }
        match stream.has_more() {
            false if bytes < length => ReadOutcome::Drained,
            true if stream.has_ended() => {
                // No event will wake this connection again, so it is read once more to see its end. The recursion ends there, as
                // nothing can be read.
                drop(buffer);
                self.read_and_take(listener_index, connection)
            }
            _ => ReadOutcome::More,
        }
    }

    /// Counts the bytes of a connection's unfinished message; `is_new` if the message began with this read. Returns `false` when
    /// the message must be given up.
    fn may_hold(&self, memory: &mut MemoryShare, bytes: usize, peer: Peer, is_new: bool) -> bool {
        if is_new {
            self.buffers.memory.renew(memory);
        }
        let identity = || Identity::of_peer(peer);
        self.buffers.memory.set(memory, Held::filled(bytes), identity).is_ok()
            && !self.buffers.memory.must_close(memory)
    }

    /// Gives up an unfinished message whose memory others need, and counts it. What the sender has sent behind it is still taken. Returns
    /// `false` if nothing can follow on the connection, which is then to be closed.
    pub(crate) fn give_up(&self, listener_index: usize, framer: &mut Framer) -> bool {
        let ledger = &self.listeners[listener_index].ledger;
        ledger.add_dropped(DropReason::Memory, 1);
        let goes_on = framer.give_up();
        if !goes_on {
            ledger.add_evicted(1);
        }
        goes_on
    }

    /// Ends a connection in the middle of a message.
    pub(crate) fn abort(&self, listener_index: usize, connection: &mut Connection) {
        self.buffers.memory.release(&mut connection.memory);
        self.frames(listener_index, connection.peer, |rules, emit| connection.framer.abort(rules, emit));
    }
}
