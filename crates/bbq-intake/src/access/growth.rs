//! Addresses whose messages are far larger when they come out than when they came in.
//!
//! Compression makes almost nothing of a million empty messages, or of a request of zeros, and JSON makes some 200 bytes of an empty
//! message. What grows that much is taken, and its address then waits, so that a sink can keep up with it: without this, some KiB a second
//! would fill the disks of outputs, and everybody else's messages would wait behind them.
//!
//! Invariant: nothing is refused for good because of this, and what is not compressed is never counted.

use std::sync::Arc;
use std::time::Duration;

use bbq_wire::Peer;

use super::address_rate::AddressRate;
use super::peer_log::PeerLog;

/// What a message without text takes in an output in JSON, in bytes.
const MESSAGE_BYTES: u64 = 192;
/// How many bytes of output each received byte may make without being counted. Without compression a message of one byte, with its length
/// or its line feed, makes some hundred of each. Logs that were compressed well make 50; lines of 64 bytes that are all the same 1,000.
const GROWTH_FREE: u64 = 1024;
/// What the addresses of a bucket may make beyond that in a second, in KiB: a sink writes several times as much.
const EXCESS_KIB_PER_SECOND_MAX: u32 = 64 * 1024;
/// Addresses in one bucket wait together, but only while one of them sends what grows. They take 32 KiB.
const BUCKETS: usize = 4096;

/// Shared by all workers and listeners.
#[derive(Debug)]
pub struct Growth(AddressRate);

impl Growth {
    /// Nothing was sent yet.
    #[must_use]
    pub fn new() -> Arc<Growth> {
        Arc::new(Growth(AddressRate::with_buckets(EXCESS_KIB_PER_SECOND_MAX, BUCKETS)))
    }

    /// Reports whose messages grow too much.
    pub(crate) fn log(&self) -> &PeerLog {
        self.0.log()
    }

    /// Counts messages that were taken: how many, their bytes, and in how many bytes they came.
    pub(crate) fn add(&self, peer: Peer, messages: u64, bytes: u64, received: u64) {
        let excess = excess_kib(messages, bytes, received);
        if excess > 0 {
            self.0.add(peer, excess);
        }
    }

    /// Returns for how long the address has to wait before more is taken from it; `None` if more may be taken now.
    pub(crate) fn wait(&self, peer: Peer) -> Option<Duration> {
        self.0.wait(peer)
    }
}

fn excess_kib(messages: u64, bytes: u64, received: u64) -> u64 {
    let output = messages.saturating_mul(MESSAGE_BYTES).saturating_add(bytes);
    output.saturating_sub(received.saturating_mul(GROWTH_FREE)) / 1024
}

#[cfg(test)]
mod tests {
    use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, BATCH_RECORDS_MAX};

    use super::*;

    #[test]
    fn only_what_grows_out_of_proportion_is_counted() {
        let records = u64::from(BATCH_RECORDS_MAX);
        assert_eq!(excess_kib(records, 0, records), 0, "empty messages that are not compressed");
        assert_eq!(excess_kib(records, 2 * records, 3 * records / 4), 0, "short ones that differ");
        assert_eq!(excess_kib(1000, 200_000, 200_000 / 50), 0, "logs in gzip");
        assert_eq!(excess_kib(1000, 64_000, 65_000 / 255), 0, "the same line again and again, in LZ4");
        let batch = excess_kib(records, 0, 4186);
        assert!(batch > 180 * 1024 && batch < 4 * u64::from(EXCESS_KIB_PER_SECOND_MAX), "{batch}");
        assert!(excess_kib(1, BATCH_BODY_BYTES_MAX.into(), 1500) > 14 * 1024, "zeros in zstd");
        assert_eq!(excess_kib(u64::MAX, u64::MAX, u64::MAX), 0);
    }

    #[test]
    fn the_largest_batch_is_taken_at_once_and_its_address_waits_for_seconds() {
        let growth = Growth::new();
        let peer = |text: &str| Peer::Inet(text.parse().unwrap());
        growth.add(peer("192.0.2.1:1"), BATCH_RECORDS_MAX.into(), 0, 4186);
        let wait = growth.wait(peer("192.0.2.1:2")).expect("it waits");
        assert!(wait > Duration::from_secs(1) && wait < Duration::from_secs(4), "{wait:?}");
        assert_eq!(
            growth.wait(Peer::Unnamed),
            None,
            "a peer without an address is a program on this machine"
        );
    }
}
