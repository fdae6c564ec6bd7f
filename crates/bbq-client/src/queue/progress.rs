//! The progress of each destination: connections that begin and break, and the end.

use std::sync::atomic::Ordering;

use bbq_wire::StreamId;
use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};

use super::Queue;
use crate::SendError;
use crate::numbering::Numbering;
use crate::queue::block::{Body, RECORD_OVERHEAD_BYTES};
use crate::queue::destination_state::{ResumePoint, Told};
use crate::queue::parker::Parker;

impl Queue {
    /// The stream and the epoch of the destination's next connection, and up to which number nothing is sent again.
    pub(crate) fn begin_connection(&self, destination: usize) -> (StreamId, u64, u64) {
        let unix_time = self.environment.unix_time();
        self.locked().destinations[destination].begin_connection(unix_time)
    }

    /// Returns where to resume after what a server says of the destination's current stream.
    pub(crate) fn resume_point(&self, destination: usize, server: usize, told: Told) -> ResumePoint {
        self.locked().destinations[destination].resume_point(server, told)
    }

    /// Moves the records of the current stream that are not acknowledged to another stream.
    pub(crate) fn replace_stream(&self, destination: usize, stream: StreamId) -> Numbering {
        self.locked().destinations[destination].replace_stream(stream)
    }

    /// Returns the record with an acknowledged number, or the last number that was sent as an error if this number was not sent.
    pub(crate) fn check_ack(&self, destination: usize, server: usize, number: u64) -> Result<u64, u64> {
        let mut state = self.locked();
        let current = &mut state.destinations[destination];
        let sent = current.numbering().number(current.sent);
        current.check_ack(server, number).ok_or(sent)
    }

    /// Begins a connection. The server has everything up to record `has`. `limits` are the sizes of body and message in its welcome.
    pub(crate) fn connected(&self, destination: usize, server: usize, has: u64, limits: (u32, u32)) {
        self.acknowledged(destination, has);
        // A message must fit into a body together with its length.
        let (body, message) = (limits.0, limits.1.min(limits.0.saturating_sub(RECORD_OVERHEAD_BYTES as u32)));
        let mut state = self.locked();
        state.last_problem = None;
        state.destinations[destination].connected(server, has, message.min(MESSAGE_BYTES_MAX), body);
        let least = state.destinations.iter().filter_map(|destination| destination.message_bytes_max).min();
        self.message_bytes_max.store(least.unwrap_or(MESSAGE_BYTES_DEFAULT), Ordering::Relaxed);
        drop(state);
        self.room.notify_all();
    }

    /// Notes why a server could not be reached, for those who wait in vain.
    pub(crate) fn set_last_problem(&self, problem: String) {
        self.locked().last_problem = Some(problem);
    }

    /// Notes that the destination's connection broke.
    pub(crate) fn set_broken(&self, destination: usize) {
        self.locked().destinations[destination].broken = true;
        self.parkers[destination].unpark();
    }

    /// Ends a destination whose servers will never take anything again. If no other destination is left, the sender fails.
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

    /// Closes the queue: no more records are queued, and the destinations end when everything is acknowledged.
    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.wake_all();
    }

    /// Ends the destinations now, and counts the queued records as abandoned unless the spool has them.
    pub(crate) fn end(&self, error: SendError, spooled: bool) {
        let mut state = self.locked();
        state.failed.get_or_insert(error);
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
        self.progressed.notify_all();
        self.room.notify_all();
        self.parkers.iter().for_each(Parker::unpark);
    }

    /// The last record that the destination has acknowledged.
    pub(crate) fn acknowledged_by(&self, destination: usize) -> u64 {
        self.locked().destinations[destination].acknowledged
    }

    /// The last record that the destination has acknowledged, and how many records it lacks.
    pub(crate) fn account_of(&self, destination: usize) -> (u64, u64) {
        let state = self.locked();
        let current = &state.destinations[destination];
        (current.acknowledged, current.given_up + state.missing(destination))
    }

    /// The last record that every destination has acknowledged.
    pub(crate) fn acknowledged_by_all(&self) -> u64 {
        self.locked().acknowledged_by_all()
    }

    /// Whether the destination's connection broke, or the sender has failed.
    pub(crate) fn is_broken(&self, destination: usize) -> bool {
        let state = self.locked();
        state.destinations[destination].broken || state.failed.is_some()
    }

    /// The last record that the destination has acknowledged, and whether more is in flight.
    pub(crate) fn progress(&self, destination: usize) -> (u64, bool) {
        let state = self.locked();
        (state.destinations[destination].acknowledged, state.destinations[destination].is_in_flight())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.locked().closed
    }

    pub(crate) fn failure(&self) -> Option<SendError> {
        self.locked().failed.clone()
    }

    /// Whether the destination has nothing left to do.
    pub(crate) fn is_over(&self, destination: usize) -> bool {
        let state = self.locked();
        state.failed.is_some()
            || state.destinations[destination].ended
            || (state.closed && state.is_done(destination))
    }

    /// Whether a destination that waits for records must go on.
    pub(crate) fn is_ready(&self, destination: usize) -> bool {
        let state = self.locked();
        let current = &state.destinations[destination];
        state.failed.is_some()
            || (state.closed && state.is_done(destination))
            || current.broken
            || state.entries.back().is_some_and(|back| back.last() > current.sent)
    }

    /// Whether a destination that waits for acknowledgements must go on.
    pub(crate) fn is_window_open(&self, destination: usize) -> bool {
        let state = self.locked();
        let current = &state.destinations[destination];
        let at = state.entries.partition_point(|entry| entry.last() <= current.sent);
        let must_wait = state.entries.get(at).is_some_and(|entry| match &entry.body {
            _ if entry.first > current.numbering().until => current.is_in_flight(),
            Body::Batch(bytes) => current.is_over_window(bytes.len(), self.window_bytes_max),
            _ => false,
        });
        !must_wait || current.broken || current.ended || state.failed.is_some()
    }
}
