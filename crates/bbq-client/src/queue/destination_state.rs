//! The progress of one destination, and its streams.

use std::collections::VecDeque;
use std::time::Duration;

use bbq_wire::{StreamId, Welcome};

use crate::numbering::{Numbering, next_epoch};
use crate::spool::RecoveredDestination;

/// Positions in the queue are numbers of records. `acknowledged <= sent` while the destination is connected.
#[derive(Debug)]
pub(crate) struct DestinationState {
    /// The current stream, and those of later records. Never empty.
    numberings: VecDeque<Numbering>,
    /// The last record that was sent in the current stream, to any server, by this sender or an earlier one on the spool. A record that is
    /// only queued is not sent: a server that knows its number has it from somebody else.
    used: u64,
    /// The last record that each server has acknowledged in the current stream, as far as known.
    by_server: Vec<u64>,
    /// The epoch of the last connection.
    epoch: u64,
    /// The last acknowledged record.
    pub(crate) acknowledged: u64,
    /// The last record sent on the current connection.
    pub(crate) sent: u64,
    /// The last record sent on any connection.
    sent_once: u64,
    /// Bytes that are sent and not acknowledged.
    in_flight_bytes: usize,
    /// The largest message that the server takes; `None` before the first welcome.
    pub(crate) message_bytes_max: Option<u32>,
    /// The largest batch body that the server takes.
    pub(crate) body_bytes_max: u32,
    /// Whether the thread that reads acknowledgements has ended.
    pub(crate) broken: bool,
    /// Records that were given up before this destination had them.
    pub(crate) given_up: u64,
    /// Whether the destination's servers will never take anything again.
    pub(crate) ended: bool,
}

/// What a server's welcome says of the current stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// Go on after this number.
    pub(crate) last: u64,
    /// The highest number that the server knows.
    pub(crate) highest: u64,
    /// The server may have forgotten the stream.
    pub(crate) is_forgotten: bool,
}

impl From<&Welcome> for Told {
    fn from(welcome: &Welcome) -> Told {
        let last = welcome.last_sequence;
        Told { last, highest: welcome.highest.unwrap_or(last).max(last), is_forgotten: welcome.forgotten }
    }
}

/// What the numbers in a welcome mean.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// The server has everything up to this record.
    Has(u64),
    /// The server has everything up to record `has`, and had acknowledged `lost` records more.
    Forgot { has: u64, lost: u64 },
    /// The server knows a number that was never sent: another sender uses the stream.
    NeverSent,
}

impl DestinationState {
    /// Continues where an earlier sender ended. `servers` are the ids of the servers ([`crate::ServerAddress::id`]).
    pub(crate) fn new(before: RecoveredDestination, servers: &[u32]) -> DestinationState {
        // With several servers it is unknown how much each of them has acknowledged. A server that was not named before has
        // acknowledged nothing.
        let is_known = servers.len() == 1 && [0, servers[0]].contains(&before.acknowledged_by);
        let known = if is_known { before.acknowledged } else { 0 };
        let begin = before.numberings.front().map_or(0, |current| current.base);
        DestinationState {
            numberings: before.numberings,
            used: before.sent.max(before.acknowledged).max(begin),
            by_server: vec![known; servers.len()],
            epoch: before.epoch,
            acknowledged: before.acknowledged,
            sent: 0,
            sent_once: 0,
            in_flight_bytes: 0,
            message_bytes_max: None,
            body_bytes_max: u32::MAX,
            broken: false,
            given_up: 0,
            ended: false,
        }
    }

    /// The current stream.
    pub(crate) fn numbering(&self) -> Numbering {
        self.numberings[0]
    }

    pub(crate) fn numberings(&self) -> impl Iterator<Item = &Numbering> {
        self.numberings.iter()
    }

    /// Changes to the next stream. Returns `false` if there is none.
    pub(crate) fn next_stream(&mut self) -> bool {
        if self.numberings.len() < 2 {
            return false;
        }
        self.numberings.pop_front();
        self.used = self.used.max(self.numbering().base);
        self.by_server.fill(0);
        true
    }

    /// The stream and the epoch of the next connection, and up to which number nothing is sent again.
    pub(crate) fn begin_connection(&mut self, unix_time: Duration) -> (StreamId, u64, u64) {
        while self.acknowledged >= self.numbering().until && self.next_stream() {}
        self.epoch = next_epoch(self.epoch, unix_time);
        (self.numbering().stream, self.epoch, self.numbering().number(self.acknowledged))
    }

    /// Moves the records of the current stream that are not acknowledged to another stream.
    pub(crate) fn replace_stream(&mut self, stream: StreamId) -> Numbering {
        let current = Numbering { stream, base: self.acknowledged, ..self.numbering() };
        self.numberings[0] = current;
        self.used = current.base;
        self.by_server.fill(0);
        current
    }

    /// Returns where to resume after what a server says of the current stream.
    pub(crate) fn resume_point(&self, server: usize, told: Told) -> ResumePoint {
        let (current, known) = (self.numbering(), self.by_server[server]);
        if current.until == u64::MAX && current.record(told.highest).is_none_or(|record| record > self.used) {
            return ResumePoint::NeverSent;
        }
        match current.record(told.last) {
            // An earlier sender may have sent all of its stream, and more than was found in the spool.
            Some(record) if current.until < u64::MAX && record >= current.until => {
                ResumePoint::Has(current.until)
            }
            None => ResumePoint::NeverSent,
            // What it has acknowledged is not lost, and not sent again. The server may know some of it again, by a link.
            Some(record) if record < known && told.is_forgotten => ResumePoint::Has(known),
            Some(record) if record < known => ResumePoint::Forgot { has: record, lost: known - record },
            Some(record) => ResumePoint::Has(record),
        }
    }

    /// Returns the record with an acknowledged number; `None` if the record was not sent on this connection.
    pub(crate) fn check_ack(&mut self, server: usize, number: u64) -> Option<u64> {
        let record = self.numbering().record(number).filter(|record| *record <= self.sent)?;
        self.by_server[server] = self.by_server[server].max(record);
        Some(record)
    }

    /// Records up to this one may have been sent, so that a server may have them without a word.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Whether `bytes` more must wait for acknowledgements. One batch may always be in flight.
    pub(crate) fn is_over_window(&self, bytes: usize, window_bytes_max: usize) -> bool {
        self.in_flight_bytes > 0 && self.in_flight_bytes + bytes > window_bytes_max
    }

    /// Notes that a batch that ends with number `last` is sent. Returns how many of its records are sent for the first time.
    pub(crate) fn send(&mut self, last: u64, records: u32, bytes: usize) -> u64 {
        self.sent = last;
        self.used = self.used.max(last);
        self.in_flight_bytes += bytes;
        if last <= self.sent_once {
            return 0;
        }
        self.sent_once = last;
        u64::from(records)
    }

    pub(crate) fn acknowledge(&mut self, sequence: u64, bytes: usize) {
        self.acknowledged = self.acknowledged.max(sequence);
        // A batch may be rebuilt with another length after it was sent. The count starts from 0 when nothing is in flight, so that
        // such differences do not add up.
        let left = self.in_flight_bytes.saturating_sub(bytes);
        self.in_flight_bytes = if self.is_in_flight() { left } else { 0 };
    }

    /// Whether something was sent and is not acknowledged.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.sent > self.acknowledged
    }

    /// Begins a connection. The server has everything up to record `has`.
    pub(crate) fn connected(&mut self, server: usize, has: u64, message_bytes_max: u32, body_bytes_max: u32) {
        self.by_server[server] = has;
        self.body_bytes_max = body_bytes_max;
        self.sent = self.acknowledged;
        self.in_flight_bytes = 0;
        self.broken = false;
        self.message_bytes_max = Some(message_bytes_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Recovered;

    #[test]
    fn a_stream_that_nothing_was_sent_in_yet_is_known_up_to_its_beginning() {
        // After a power failure that took records 16 to 21, and another end before a connection was made.
        let numberings = VecDeque::from([Numbering::begin(StreamId([7; 16]), 21)]);
        let before =
            RecoveredDestination { acknowledged: 15, acknowledged_by: 0, sent: 15, epoch: 1, numberings };
        assert_eq!(
            DestinationState::new(before, &[1]).resume_point(0, Told::default()),
            ResumePoint::Has(21)
        );
    }

    #[test]
    fn a_server_that_may_have_forgotten_the_stream_has_lost_nothing() {
        let mut before = Recovered::nothing(StreamId([7; 16]), 1).destinations.remove(0);
        (before.acknowledged, before.sent) = (100, 120);
        let destination = DestinationState::new(before, &[1]);
        let told = |last, highest, is_forgotten| Told { last, highest, is_forgotten };
        let at = |told| destination.resume_point(0, told);
        assert_eq!(at(told(0, 0, true)), ResumePoint::Has(100));
        assert_eq!(at(told(0, 0, false)), ResumePoint::Forgot { has: 0, lost: 100 });
        assert_eq!(at(told(90, 90, false)), ResumePoint::Forgot { has: 90, lost: 10 });
        // A link has brought some of it again.
        assert_eq!(at(told(90, 115, true)), ResumePoint::Has(100));
        assert_eq!(at(told(110, 110, false)), ResumePoint::Has(110));
        // A copy of this sender has sent more, over another server.
        assert_eq!(at(told(100, 121, false)), ResumePoint::NeverSent);
    }

    /// A batch may be longer when it is sent than when its acknowledgement comes.
    #[test]
    fn where_everything_sent_is_acknowledged_the_window_is_open() {
        let before = Recovered::nothing(StreamId([7; 16]), 1).destinations.remove(0);
        let mut destination = DestinationState::new(before, &[1]);
        destination.connected(0, 0, 1000, 1000);
        destination.send(5, 5, 100);
        destination.send(9, 4, 100);
        destination.acknowledge(5, 10);
        assert!(destination.is_over_window(50, 200), "a batch is on its way");
        destination.acknowledge(9, 10);
        assert!(!destination.is_over_window(1000, 200));
    }
}
