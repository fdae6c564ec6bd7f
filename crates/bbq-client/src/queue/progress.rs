//! How far each destination is: connections that begin and break, and the end.

use std::sync::atomic::Ordering;

use bbq_wire::StreamId;
use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};

use super::Queue;
use crate::SendError;
use crate::numbering::Numbering;
use crate::queue::block::{Body, RECORD_OVERHEAD_BYTES};
use crate::queue::destination_state::ResumePoint;
use crate::queue::parker::Parker;

impl Queue {
    /// What the destination's next connection says in its hello: its stream, and its epoch.
    pub(crate) fn begin_connection(&self, destination: usize) -> (StreamId, u64) {
        let unix_time = self.environment.unix_time();
        self.locked().destinations[destination].begin_connection(unix_time)
    }

    /// What it means that a server knows the destination's present stream up to number `last`.
    pub(crate) fn resume_point(&self, destination: usize, server: usize, last: u64) -> ResumePoint {
        self.locked().destinations[destination].resume_point(server, last)
    }

    /// Gives what is not acknowledged of the destination's present stream another one.
    pub(crate) fn rename(&self, destination: usize, stream: StreamId) -> Numbering {
        self.locked().destinations[destination].rename(stream)
    }

    /// The destination goes on to its next stream.
    pub(crate) fn next_stream(&self, destination: usize) -> bool {
        self.locked().destinations[destination].next_stream()
    }

    /// The record that the acknowledgement of a number means. `Err` names the last record's number when it was never sent.
    pub(crate) fn check_ack(&self, destination: usize, server: usize, number: u64) -> Result<u64, u64> {
        let mut state = self.locked();
        let mine = &mut state.destinations[destination];
        let sent = mine.numbering().number(mine.sent);
        mine.check_ack(server, number).ok_or(sent)
    }

    /// A new connection: the server has everything up to record `has`, the rest is sent again.
    pub(crate) fn connected(&self, destination: usize, server: usize, has: u64, limits: (u32, u32)) {
        self.acknowledged(destination, has);
        // A message takes its length beside its bytes.
        let (body, message) = (limits.0, limits.1.min(limits.0.saturating_sub(RECORD_OVERHEAD_BYTES as u32)));
        let mut state = self.locked();
        state.destinations[destination].connected(server, has, message.min(MESSAGE_BYTES_MAX), body);
        let least = state.destinations.iter().filter_map(|destination| destination.message_bytes_max).min();
        self.message_bytes_max.store(least.unwrap_or(MESSAGE_BYTES_DEFAULT), Ordering::Relaxed);
        drop(state);
        self.room.notify_all();
    }

    /// The reader of the destination's present connection ended.
    pub(crate) fn set_broken(&self, destination: usize) {
        self.locked().destinations[destination].broken = true;
        self.parkers[destination].unpark();
    }

    /// The destination's server will never take anything. When no other is left, this is the end.
    pub(crate) fn fail(&self, destination: usize, error: &SendError) {
        let mut state = self.locked();
        state.destinations[destination].ended = true;
        if state.destinations.iter().all(|destination| destination.ended) {
            state.failed.get_or_insert_with(|| error.clone());
        }
        let acknowledged_by_all = state.acknowledged_by_all();
        self.forget(&mut state, acknowledged_by_all);
        drop(state);
        self.wake_all();
    }

    /// Nothing comes in any more, and the destinations end when everything is acknowledged.
    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.wake_all();
    }

    /// Ends everything now, and counts what is left as abandoned unless the spool has it.
    pub(crate) fn end(&self, error: SendError, spooled: bool) {
        let mut state = self.locked();
        if state.failed.is_none() {
            state.failed = Some(error);
        }
        state.closed = true;
        if !spooled {
            for destination in 0..state.destinations.len() {
                state.destinations[destination].given_up += state.missing(destination);
            }
            let left: u64 = state.entries.iter().map(|entry| u64::from(entry.records)).sum();
            state.abandoned += left;
            state.abandoned_from = state.entries.front().map(|front| front.first);
            state.entries.clear();
        }
        drop(state);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.moved.notify_all();
        self.room.notify_all();
        self.parkers.iter().for_each(Parker::unpark);
    }

    /// Everything up to this number is acknowledged by the destination's server.
    pub(crate) fn acknowledged_by(&self, destination: usize) -> u64 {
        self.locked().destinations[destination].acknowledged
    }

    /// Everything up to which number is acknowledged by the destination's server, and how many records it does not have.
    pub(crate) fn account_of(&self, destination: usize) -> (u64, u64) {
        let state = self.locked();
        let mine = &state.destinations[destination];
        (mine.acknowledged, mine.given_up + state.missing(destination))
    }

    /// Everything up to this number is acknowledged by every destination's server.
    pub(crate) fn acknowledged_by_all(&self) -> u64 {
        self.locked().acknowledged_by_all()
    }

    /// Everything up to this number was given to the destination's connection.
    pub(crate) fn sent_by(&self, destination: usize) -> u64 {
        self.locked().destinations[destination].sent
    }

    /// Whether the destination's connection is of no use any more, or nothing is.
    pub(crate) fn is_broken(&self, destination: usize) -> bool {
        let state = self.locked();
        state.destinations[destination].broken || state.failed.is_some()
    }

    /// Everything up to which number is acknowledged, and whether something more was sent.
    pub(crate) fn progress(&self, destination: usize) -> (u64, bool) {
        let state = self.locked();
        (state.destinations[destination].acknowledged, state.destinations[destination].awaits())
    }

    /// Whether the destination has sent what is not acknowledged.
    pub(crate) fn awaits(&self, destination: usize) -> bool {
        self.locked().destinations[destination].awaits()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.locked().closed
    }

    pub(crate) fn failure(&self) -> Option<SendError> {
        self.locked().failed.clone()
    }

    pub(crate) fn is_over(&self, destination: usize) -> bool {
        let state = self.locked();
        state.failed.is_some()
            || state.destinations[destination].ended
            || (state.closed && state.is_done(destination))
    }

    /// Whether the destination finds something new if it looks.
    pub(crate) fn is_ready(&self, destination: usize) -> bool {
        let state = self.locked();
        let mine = &state.destinations[destination];
        state.failed.is_some()
            || (state.closed && state.is_done(destination))
            || mine.broken
            || state.entries.back().is_some_and(|back| back.last() > mine.sent)
    }

    /// Whether a destination that waits for acknowledgements need not wait longer.
    pub(crate) fn is_window_open(&self, destination: usize) -> bool {
        let state = self.locked();
        let mine = &state.destinations[destination];
        let at = state.entries.partition_point(|entry| entry.last() <= mine.sent);
        let over = state.entries.get(at).is_some_and(|entry| match &entry.body {
            _ if entry.first > mine.numbering().until => mine.awaits(),
            Body::Batch(bytes) => mine.is_over_window(bytes.len(), self.window_bytes_max),
            _ => false,
        });
        !over || mine.broken || mine.ended || state.failed.is_some()
    }
}
