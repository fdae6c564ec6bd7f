//! The replies of a session to its client: acknowledgements of appended batches, and bytes that the connection has not taken
//! yet.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use bbq_wire::session::{AckLevel, Welcome, encode_ack};

/// Where a session's replies go.
pub trait Connection {
    /// Sends as many of these bytes as the connection takes now.
    fn send(&self, bytes: &[u8]) -> Sent;

    /// Whether sent bytes still wait inside the connection, such as encrypted records.
    fn has_unsent(&self) -> bool {
        false
    }

    /// Tells the driver of the session to take a step.
    fn wake(&self);
}

/// The result of sending bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// This many bytes are sent.
    Bytes(usize),
    /// The connection takes nothing before the client has read.
    Full,
    /// The client is gone. Reading notices this, too, and ends the session.
    Gone,
}

/// Shared by the session and its batches that wait for the disk.
#[derive(Debug)]
pub struct Replies<C> {
    /// The client.
    pub connection: C,
    pub(super) level: Cell<AckLevel>,
    /// Batches in the lane that are not durable yet.
    pub(super) outstanding: Cell<usize>,
    outstanding_bytes: Cell<usize>,
    /// Durable batches that the next servers do not have yet; only with the level `replicated`. For each group, up to which position
    /// the next servers must be, and the last sequence.
    replicating: RefCell<VecDeque<(u64, u64)>>,
    /// The newest acknowledgement that is due, and the newest that was put in the outbox.
    pub(super) ack_due: Cell<u64>,
    pub(super) ack_sent: Cell<u64>,
    /// Bytes that the connection did not take.
    pub(super) outbox: RefCell<Vec<u8>>,
    /// Whether the lane failed with batches of this session in it.
    failed: Cell<bool>,
    /// Whether the session is in the list of sessions that get an acknowledgement next.
    pub(crate) is_listed: Cell<bool>,
}

impl<C: Connection> Replies<C> {
    /// Replies to a client that was sent acknowledgements up to `ack_sent`.
    pub(super) fn new(connection: C, level: AckLevel, ack_sent: u64) -> Replies<C> {
        Replies {
            connection,
            level: Cell::new(level),
            outstanding: Cell::new(0),
            outstanding_bytes: Cell::new(0),
            replicating: RefCell::default(),
            ack_due: Cell::new(ack_sent),
            ack_sent: Cell::new(ack_sent),
            outbox: RefCell::default(),
            failed: Cell::new(false),
            is_listed: Cell::new(false),
        }
    }

    /// Begins with the level and the position of the welcome.
    pub(super) fn welcome(&self, welcome: &Welcome) {
        self.level.set(welcome.ack);
        self.ack_due.set(welcome.last_sequence);
        self.ack_sent.set(welcome.last_sequence);
        welcome.encode(&mut self.outbox.borrow_mut());
    }

    /// Counts a batch that waits for the disk. Returns whether it is the only one of its session.
    pub(crate) fn begin_batch(&self, bytes: usize) -> bool {
        self.outstanding.set(self.outstanding.get() + 1);
        self.outstanding_bytes.set(self.outstanding_bytes.get() + bytes);
        self.outstanding.get() == 1
    }

    /// Counts a batch that no longer waits. Returns whether it was the last one of its session.
    pub(crate) fn end_batch(&self, bytes: usize) -> bool {
        self.outstanding.set(self.outstanding.get() - 1);
        self.outstanding_bytes.set(self.outstanding_bytes.get() - bytes);
        self.outstanding.get() == 0
    }

    /// The bytes of the session's batches that wait.
    pub(crate) fn outstanding_bytes(&self) -> usize {
        self.outstanding_bytes.get()
    }

    /// Lets a durable batch wait until the next servers have everything before `position`. Returns whether it is the first of its group.
    pub(crate) fn replicate(&self, position: u64, sequence: u64) -> bool {
        let mut replicating = self.replicating.borrow_mut();
        match replicating.back_mut().filter(|(last, _)| *last == position) {
            Some((_, of_group)) => {
                *of_group = sequence;
                false
            }
            None => {
                replicating.push_back((position, sequence));
                true
            }
        }
    }

    /// Acknowledges what the next servers have before `position`.
    pub(crate) fn replicated(&self, position: u64) {
        let mut replicating = self.replicating.borrow_mut();
        while let Some((_, sequence)) = replicating.pop_front_if(|(waits_for, _)| *waits_for <= position) {
            self.acknowledge(sequence);
        }
    }

    /// Groups that the next servers do not have yet.
    pub(crate) fn replicating(&self) -> usize {
        self.replicating.borrow().len()
    }

    /// Notes that the lane failed: batches that wait will never be acknowledged.
    pub(crate) fn fail(&self) {
        self.failed.set(true);
        self.outstanding.set(0);
        self.outstanding_bytes.set(0);
        self.connection.wake();
    }

    /// The acknowledgements that the client asked for.
    pub(crate) fn level(&self) -> AckLevel {
        self.level.get()
    }

    /// Whether the session owes its client nothing.
    pub(crate) fn is_settled(&self) -> bool {
        self.outstanding.get() == 0
            && self.replicating.borrow().is_empty()
            && self.is_sent()
            && !self.has_unsent_ack()
            && !self.has_failed()
    }

    /// Whether the connection has taken everything.
    pub fn is_sent(&self) -> bool {
        self.outbox.borrow().is_empty() && !self.connection.has_unsent()
    }

    /// Whether the lane failed with batches of the session in it.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Whether the newest acknowledgement is not in the outbox yet.
    fn has_unsent_ack(&self) -> bool {
        self.ack_due.get() > self.ack_sent.get()
    }

    pub(crate) fn acknowledge(&self, sequence: u64) {
        self.ack_due.set(self.ack_due.get().max(sequence));
    }

    /// Sends the newest acknowledgement again: the client resent records that are known, so it did not read it.
    pub(super) fn acknowledge_again(&self) {
        self.ack_sent.set(0);
    }

    /// Sends the replies, as far as the connection takes them now.
    pub fn flush(&self) {
        let mut outbox = self.outbox.borrow_mut();
        // At most two passes. An acknowledgement waits until the connection has taken the bytes before it, and only the newest
        // waits. So a client that does not read costs at most a welcome and an acknowledgement.
        loop {
            if self.has_unsent_ack() && outbox.is_empty() {
                outbox.extend_from_slice(&encode_ack(self.ack_due.get()));
                self.ack_sent.set(self.ack_due.get());
            }
            self.send_from(&mut outbox);
            if !outbox.is_empty() || !self.has_unsent_ack() {
                break;
            }
        }
        if outbox.capacity() > 0 && outbox.is_empty() {
            *outbox = Vec::new();
        }
        if !outbox.is_empty() || self.connection.has_unsent() || self.outstanding.get() == 0 {
            self.connection.wake();
        }
    }

    /// Sends as much as the connection takes now.
    fn send_from(&self, outbox: &mut Vec<u8>) {
        while !outbox.is_empty() {
            match self.connection.send(outbox) {
                Sent::Bytes(sent) => drop(outbox.drain(..sent)),
                Sent::Full => break,
                Sent::Gone => outbox.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that takes a set number of bytes.
    #[derive(Default)]
    struct FakeConnection {
        read: RefCell<Vec<u8>>,
        room: Cell<usize>,
    }

    impl Connection for FakeConnection {
        fn send(&self, bytes: &[u8]) -> Sent {
            let sent = bytes.len().min(self.room.get());
            self.room.set(self.room.get() - sent);
            self.read.borrow_mut().extend_from_slice(&bytes[..sent]);
            if sent == 0 { Sent::Full } else { Sent::Bytes(sent) }
        }

        fn wake(&self) {}
    }

    #[test]
    fn of_the_acknowledgements_that_wait_only_the_newest_is_sent() {
        let replies = Replies::new(FakeConnection::default(), AckLevel::Durable, 6);
        replies.acknowledge(7);
        replies.connection.room.set(10);
        replies.flush();
        for sequence in 8..600 {
            replies.acknowledge(sequence);
            replies.flush();
        }
        assert!(!replies.is_settled() && !replies.is_sent());
        replies.connection.room.set(usize::MAX);
        replies.flush();
        assert!(replies.is_settled());
        assert_eq!(*replies.connection.read.borrow(), [encode_ack(7), encode_ack(599)].concat());
    }

    #[test]
    fn who_has_an_acknowledgement_to_say_is_not_settled() {
        let replies = Replies::new(FakeConnection::default(), AckLevel::Durable, 6);
        assert!(replies.is_settled());
        replies.acknowledge(7);
        assert!(!replies.is_settled());
    }

    #[test]
    fn what_the_next_servers_lack_is_not_acknowledged() {
        let replies = Replies::new(FakeConnection::default(), AckLevel::Replicated, 0);
        // Two groups, the first with two batches.
        assert_eq!(
            [(8, 1), (8, 2), (16, 3)].map(|(at, last)| replies.replicate(at, last)),
            [true, false, true]
        );
        replies.replicated(7);
        assert_eq!((replies.replicating(), replies.ack_due.get()), (2, 0));
        replies.replicated(8);
        assert_eq!((replies.replicating(), replies.ack_due.get()), (1, 2));
        assert!(!replies.is_settled());
        replies.replicated(20);
        assert_eq!((replies.replicating(), replies.ack_due.get()), (0, 3));
    }
}
