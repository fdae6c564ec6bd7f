//! What an HTTP/2 connection sends beside its messages.
//!
//! Frames that carry no message (PING, SETTINGS, WINDOW_UPDATE, cancelled requests, endless heads) cost the server processor time
//! and cost their sender little. So a connection may send only so many bytes of them, and then waits: as long as it alone would
//! have to, and as long as its address has to, for all that its connections sent (`access::Floods`).

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

/// What a connection may send at once that is no message, in bytes. More than may be under way of bodies that the server has not
/// taken yet (`CONNECTION_WINDOW_BYTES`), so that these never make an honest client wait.
const AT_ONCE_BYTES: i64 = 320 * 1024;
/// The same for a connection of an address that floods. An honest one behind it sends a large body in turns of a quarter of this.
const AT_ONCE_WARILY_BYTES: i64 = 32 * 1024;
/// What is read before the worker's other tasks have their turn, in bytes: two of the largest frames that clients send unasked.
const TURN_BYTES: usize = 32 * 1024;
/// The same for a connection of an address that floods: some 500 PING frames.
const TURN_WARILY_BYTES: usize = 8 * 1024;
/// What it may send beside its messages in a second: some 4,000 PING frames, of which an honest client sends a few a minute.
const BYTES_PER_SECOND: i64 = 64 * 1024;
/// What a client may send of a body before the server has taken something. It may come, too, when the server reads no body, as it has no
/// room.
pub(super) const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// What an answered request pays for: its head, and the frames that belong to it.
const REQUEST_BYTES: i64 = 2 * 1024;

/// Counts what is left of what may be sent at once.
pub(super) struct Overhead {
    /// What may be sent at once, in bytes.
    at_once: Cell<i64>,
    /// At most `at_once`. Negative by one read at most.
    left: Cell<i64>,
    /// Until when `left` has grown with time.
    grown_until: Cell<Instant>,
    has_answered: Cell<bool>,
}

/// What a connection sent beside its messages and more than it may, in bytes.
pub(super) struct Excess(pub(super) u64);

impl Excess {
    /// How long a connection waits for it.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs_f64(self.0 as f64 / BYTES_PER_SECOND as f64)
    }
}

impl Overhead {
    pub(super) fn new() -> Overhead {
        Overhead {
            at_once: Cell::new(AT_ONCE_BYTES),
            left: Cell::new(AT_ONCE_BYTES),
            grown_until: Cell::new(Instant::now()),
            has_answered: Cell::new(false),
        }
    }

    /// Lets the connection send less, as its address floods.
    pub(super) fn limit(&self) {
        self.at_once.set(AT_ONCE_WARILY_BYTES);
        self.give(0);
    }

    /// Counts bytes that were read from the connection.
    pub(super) fn add_read(&self, bytes: usize) {
        self.left.set(self.left.get().saturating_sub(signed(bytes)));
    }

    /// Counts bytes of a body that were taken. A quarter more pays for the headers of its frames.
    pub(super) fn add_body(&self, bytes: usize) {
        self.give(signed(bytes) + signed(bytes / 4));
    }

    /// Counts a request that was refused for want of room, before its body was read.
    pub(super) fn add_unread_body(&self) {
        self.add_body(STREAM_WINDOW_BYTES as usize);
    }

    pub(super) fn add_answered(&self) {
        self.has_answered.set(true);
        self.give(REQUEST_BYTES);
    }

    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.get()
    }

    /// What was read too much; `None` if more may be read now.
    pub(super) fn excess(&self) -> Option<Excess> {
        if self.left.get() > 0 {
            return None;
        }
        self.grow(Instant::now());
        let bytes = 1 - self.left.get();
        (bytes > 0).then(|| Excess(bytes.unsigned_abs()))
    }

    /// Counts an excess as paid for by a wait, however long that was: it may have been for others of the address, too.
    pub(super) fn settle(&self) {
        self.grown_until.set(Instant::now());
        self.left.set(self.left.get().max(1));
    }

    /// What is read before the worker's other tasks have their turn, in bytes.
    pub(super) fn turn_bytes(&self) -> usize {
        if self.at_once.get() == AT_ONCE_BYTES { TURN_BYTES } else { TURN_WARILY_BYTES }
    }

    /// Whether more than the half of what is allowed at once is used up.
    pub(super) fn is_large(&self) -> bool {
        self.grow(Instant::now());
        self.left.get() < self.at_once.get() / 2
    }

    fn grow(&self, now: Instant) {
        let time = now.saturating_duration_since(self.grown_until.get());
        self.grown_until.set(now);
        self.give((time.as_secs_f64() * BYTES_PER_SECOND as f64) as i64);
    }

    fn give(&self, bytes: i64) {
        self.left.set(self.left.get().saturating_add(bytes).min(self.at_once.get()));
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
