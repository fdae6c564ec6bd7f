//! How far one destination is: the servers that share one progress, and what they call the records.

use std::collections::VecDeque;
use std::time::Duration;

use bbq_wire::StreamId;

use crate::numbering::{Numbering, next_epoch};
use crate::spool::RecoveredDestination;

/// Marks in the queue, by number of a record. `acknowledged <= sent` while it is connected.
#[derive(Debug)]
pub(crate) struct DestinationState {
    /// The present stream, and those of later records. Never empty.
    numberings: VecDeque<Numbering>,
    /// Everything up to it may have been given to a connection of the present stream, in any life of a spool.
    used: u64,
    /// What each server has acknowledged in the present stream, as far as known.
    by_server: Vec<u64>,
    /// Of the last connection.
    epoch: u64,
    /// Everything up to it is acknowledged.
    pub(crate) acknowledged: u64,
    /// Everything up to it was given to the present connection.
    pub(crate) sent: u64,
    /// Everything up to it was given to some connection once.
    sent_once: u64,
    /// Bytes that are sent and not acknowledged.
    in_flight: usize,
    /// The largest message that the server takes; `None` before the first welcome.
    pub(crate) message_bytes_max: Option<u32>,
    /// The largest body of a batch that it takes.
    pub(crate) body_bytes_max: u32,
    /// The present connection broke, said by its reader.
    pub(crate) broken: bool,
    /// Records that it did not have when the rest was given up.
    pub(crate) given_up: u64,
    /// Nothing is ever sent here again.
    pub(crate) ended: bool,
}

/// What a welcome's last number means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// The server has everything up to this record.
    Has(u64),
    /// The server has everything up to this record, and acknowledged more: so many records.
    Forgot { has: u64, lost: u64 },
    /// It has a number that was never sent: somebody else uses the stream.
    NeverSent,
}

impl DestinationState {
    /// A destination of these servers ([`crate::ServerAddress::id`]) that goes on where an earlier sender was.
    pub(crate) fn new(before: RecoveredDestination, servers: &[u32]) -> DestinationState {
        // Of several servers nobody knows who acknowledged how much, and another one than before need not know of it.
        let is_known = servers.len() == 1 && [0, servers[0]].contains(&before.acknowledged_by);
        let known = if is_known { before.acknowledged } else { 0 };
        let begin = before.numberings.front().map_or(0, |present| present.base);
        DestinationState {
            numberings: before.numberings,
            used: before.sent.max(before.acknowledged).max(begin),
            by_server: vec![known; servers.len()],
            epoch: before.epoch,
            acknowledged: before.acknowledged,
            sent: 0,
            sent_once: 0,
            in_flight: 0,
            message_bytes_max: None,
            body_bytes_max: u32::MAX,
            broken: false,
            given_up: 0,
            ended: false,
        }
    }

    /// The present stream.
    pub(crate) fn numbering(&self) -> Numbering {
        self.numberings[0]
    }

    /// The present stream, and those of later records.
    pub(crate) fn numberings(&self) -> impl Iterator<Item = &Numbering> {
        self.numberings.iter()
    }

    /// Goes on to the next stream, if there is one: the present one's records are acknowledged, or will never be sent.
    pub(crate) fn next_stream(&mut self) -> bool {
        if self.numberings.len() < 2 {
            return false;
        }
        self.numberings.pop_front();
        self.used = self.used.max(self.numbering().base);
        self.by_server.fill(0);
        true
    }

    /// What the next connection says in its hello.
    pub(crate) fn begin_connection(&mut self, unix_time: Duration) -> (StreamId, u64) {
        while self.acknowledged >= self.numbering().until && self.next_stream() {}
        self.epoch = next_epoch(self.epoch, unix_time);
        (self.numbering().stream, self.epoch)
    }

    /// Gives the present stream's records that are not acknowledged another stream.
    pub(crate) fn rename(&mut self, stream: StreamId) -> Numbering {
        let present = Numbering { stream, base: self.acknowledged, ..self.numbering() };
        self.numberings[0] = present;
        self.used = present.base;
        self.by_server.fill(0);
        present
    }

    /// Judges the last number of the present stream that a server knows.
    pub(crate) fn resume_point(&mut self, server: usize, last: u64) -> ResumePoint {
        let (present, known) = (self.numbering(), self.by_server[server]);
        match present.record(last) {
            // Of a stream of an earlier life all may have been sent, and what this life did not find as well.
            Some(record) if present.until < u64::MAX && record >= present.until => {
                ResumePoint::Has(present.until)
            }
            Some(record) if present.until == u64::MAX && record > self.used => ResumePoint::NeverSent,
            None => ResumePoint::NeverSent,
            Some(record) if record < known => ResumePoint::Forgot { has: record, lost: known - record },
            Some(record) => ResumePoint::Has(record),
        }
    }

    /// The record that a server's acknowledgement means; `None` when it was not sent on this connection.
    pub(crate) fn check_ack(&mut self, server: usize, number: u64) -> Option<u64> {
        let record = self.numbering().record(number).filter(|record| *record <= self.sent)?;
        self.by_server[server] = self.by_server[server].max(record);
        Some(record)
    }

    /// Whether `bytes` more have to wait for acknowledgements. Something may always be on its way.
    pub(crate) fn is_over_window(&self, bytes: usize, window_bytes_max: usize) -> bool {
        self.in_flight > 0 && self.in_flight + bytes > window_bytes_max
    }

    /// A batch that ends with number `last` is given to the connection; answers how many records were never before.
    pub(crate) fn send(&mut self, last: u64, records: u32, bytes: usize) -> u64 {
        self.sent = last;
        self.used = self.used.max(last);
        self.in_flight += bytes;
        if last <= self.sent_once {
            return 0;
        }
        self.sent_once = last;
        u64::from(records)
    }

    pub(crate) fn acknowledge(&mut self, sequence: u64, bytes: usize) {
        self.acknowledged = self.acknowledged.max(sequence);
        // A batch may be stored again, with another length, after it was sent: the difference must not stay.
        let nothing_is_left = !self.awaits();
        self.in_flight = if nothing_is_left { 0 } else { self.in_flight.saturating_sub(bytes) };
    }

    /// Whether something was sent that is not acknowledged.
    pub(crate) fn awaits(&self) -> bool {
        self.sent > self.acknowledged
    }

    /// Begins a connection behind what is acknowledged. The server has everything up to record `has`.
    pub(crate) fn connected(&mut self, server: usize, has: u64, message_bytes_max: u32, body_bytes_max: u32) {
        self.by_server[server] = has;
        self.body_bytes_max = body_bytes_max;
        self.sent = self.acknowledged;
        self.in_flight = 0;
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
        assert_eq!(DestinationState::new(before, &[1]).resume_point(0, 0), ResumePoint::Has(21));
    }

    /// A batch may be sent in one form and stored in another, shorter one when its acknowledgement comes.
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
