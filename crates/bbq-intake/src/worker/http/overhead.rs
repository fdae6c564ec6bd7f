//! What an HTTP/2 connection sends beside its messages.
//!
//! Frames that carry no message (PING, SETTINGS, WINDOW_UPDATE, cancelled requests, endless heads) cost the server processor time
//! and cost their sender little. So a connection may send only so many bytes of them, and more for each answered request. For what is
//! beyond that it waits: as long as it alone has to, or its address for all that its connections sent (`access::Floods`), if that is longer.

use std::cell::Cell;
use std::time::Duration;

/// What a connection may send at once that is no message, in bytes. More than may be under way of bodies that the server has not
/// taken yet (`CONNECTION_WINDOW_BYTES`), so that these never make an honest client wait.
const AT_ONCE_BYTES: i64 = 320 * 1024;
/// The same at the beginning of a connection whose address floods. An honest one that sends a large body while the server has no room
/// may have to wait; its first answers give it as much as others have.
const AT_FIRST_WARILY_BYTES: i64 = 32 * 1024;
/// What is read before the worker's other tasks have their turn, in bytes: two of the largest frames that clients send unasked.
const TURN_BYTES: usize = 32 * 1024;
/// The same when a connection has less than half of `AT_ONCE_BYTES` left: some 500 PING frames.
const TURN_WARILY_BYTES: usize = 8 * 1024;
/// What it may send beside its messages in a second when nothing is left: some 4,000 PING frames, of which an honest client sends a few a
/// minute.
const BYTES_PER_SECOND: u32 = 64 * 1024;
/// What a client may send of a body before the server has taken something. It may come, too, when the server reads no body, as it has no
/// room.
pub(super) const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// What an answered request pays for: its head, and the frames that belong to it.
const REQUEST_BYTES: i64 = 2 * 1024;

/// Counts what is left.
pub(super) struct Overhead {
    /// At most `AT_ONCE_BYTES`. Negative by one read at most.
    left: Cell<i64>,
    /// What was left at the beginning.
    at_first: Cell<i64>,
    has_answered: Cell<bool>,
}

/// What a connection sent beside its messages and more than it may, in bytes.
pub(super) struct Excess(pub(super) u64);

impl Excess {
    /// How long a connection waits for it.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs_f64(self.0 as f64 / f64::from(BYTES_PER_SECOND))
    }
}

impl Overhead {
    pub(super) fn new() -> Overhead {
        let at_first = || Cell::new(AT_ONCE_BYTES);
        Overhead { left: at_first(), at_first: at_first(), has_answered: Cell::new(false) }
    }

    /// Lets the connection send less at first, as its address floods. Called before anything is counted.
    pub(super) fn limit(&self) {
        self.left.set(AT_FIRST_WARILY_BYTES);
        self.at_first.set(AT_FIRST_WARILY_BYTES);
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
        let bytes = 1 - self.left.get();
        (bytes > 0).then(|| Excess(bytes.unsigned_abs()))
    }

    /// Counts an excess of so many bytes as paid for by a wait.
    pub(super) fn settle(&self, excess: &Excess) {
        self.give(i64::try_from(excess.0).unwrap_or(i64::MAX));
    }

    /// What is read before the worker's other tasks have their turn, in bytes.
    pub(super) fn turn_bytes(&self) -> usize {
        if self.left.get() > AT_ONCE_BYTES / 2 { TURN_BYTES } else { TURN_WARILY_BYTES }
    }

    /// Whether more than the half of what is allowed at once is used up.
    pub(super) fn is_large(&self) -> bool {
        self.left.get() < self.at_first.get() / 2
    }

    fn give(&self, bytes: i64) {
        self.left.set(self.left.get().saturating_add(bytes).min(AT_ONCE_BYTES));
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_paid_for_by_requests_or_by_waiting() {
        let overhead = Overhead::new();
        overhead.add_read(AT_ONCE_BYTES as usize - 1);
        assert!(overhead.excess().is_none() && overhead.is_large());
        overhead.add_read(BYTES_PER_SECOND as usize);
        let excess = overhead.excess().unwrap();
        assert_eq!(excess.wait(), Duration::from_secs(1));
        // What is answered meanwhile counts besides.
        overhead.add_answered();
        overhead.settle(&excess);
        overhead.add_read(REQUEST_BYTES as usize);
        assert!(overhead.excess().is_none());
        overhead.add_read(1);
        assert_eq!(overhead.excess().unwrap().0, 1);
    }

    #[test]
    fn an_honest_connection_of_an_address_that_floods_soon_has_what_others_have() {
        let overhead = Overhead::new();
        overhead.limit();
        assert!(!overhead.is_large() && overhead.turn_bytes() == TURN_WARILY_BYTES);
        overhead.add_read(AT_FIRST_WARILY_BYTES as usize);
        assert!(overhead.excess().is_some() && overhead.is_large());
        for _ in 0..AT_ONCE_BYTES / REQUEST_BYTES {
            overhead.add_answered();
        }
        assert_eq!(overhead.turn_bytes(), TURN_BYTES);
        overhead.add_read(STREAM_WINDOW_BYTES as usize);
        assert!(overhead.excess().is_none() && !overhead.is_large());
    }
}
