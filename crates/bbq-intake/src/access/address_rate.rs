//! Limits how many messages a second one address may send to a listener, or how often something else may happen because of an
//! address. The IPv6 addresses of a /64 network count as one address.
//!
//! Each address has a bucket that holds the messages of one second. An address whose bucket is empty waits until it fills again. Messages
//! are counted when they have been taken, so a read or a request may bring more than is in the bucket; the next one waits for longer.
//!
//! Invariant: the memory does not depend on how many addresses there are, and nothing is locked.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bbq_stored::address_of;
use bbq_wire::Peer;

use super::peer_log::PeerLog;

/// Addresses share a bucket when their hashes are equal, modulo this number: of a thousand addresses about one in 65 does. They take
/// 512 KiB of each listener with a limit. The key of the hash is random, so nobody can choose with whom to share.
const BUCKETS: usize = 65_536;
/// What a full bucket holds, in time.
const BURST: Duration = Duration::from_secs(1);

/// Shared by all workers.
#[derive(Debug)]
pub struct AddressRate {
    per_second_max: u32,
    /// For each bucket, until when its messages of the past are paid for, in nanoseconds since the start.
    paid_until: Box<[AtomicU64]>,
    hasher: RandomState,
    start: Instant,
    /// One of its own, so that lines about refused sessions do not suppress these.
    log: PeerLog,
}

impl AddressRate {
    /// For at most `per_second_max` messages a second of each address.
    #[must_use]
    pub fn new(per_second_max: u32) -> Arc<AddressRate> {
        Arc::new(AddressRate::with_buckets(per_second_max, BUCKETS))
    }

    /// With fewer buckets, more addresses share one.
    pub(super) fn with_buckets(per_second_max: u32, buckets: usize) -> AddressRate {
        AddressRate {
            per_second_max,
            paid_until: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            start: Instant::now(),
            log: PeerLog::default(),
        }
    }

    pub(crate) fn per_second_max(&self) -> u32 {
        self.per_second_max
    }

    /// Reports who sends too much.
    pub(crate) fn log(&self) -> &PeerLog {
        &self.log
    }

    /// Returns for how long the address has to wait before it may send again; `None` if it may now, and for a peer without an
    /// address.
    pub(crate) fn wait(&self, peer: Peer) -> Option<Duration> {
        self.wait_at(peer, self.start.elapsed())
    }

    /// Counts messages that were taken.
    pub(crate) fn add(&self, peer: Peer, messages: u64) {
        self.add_at(peer, messages, self.start.elapsed());
    }

    fn wait_at(&self, peer: Peer, now: Duration) -> Option<Duration> {
        let paid_until = Duration::from_nanos(self.bucket(peer)?.load(Ordering::Relaxed));
        paid_until.checked_sub(now + BURST).filter(|wait| !wait.is_zero())
    }

    fn add_at(&self, peer: Peer, messages: u64, now: Duration) {
        let Some(bucket) = self.bucket(peer) else { return };
        let time = Duration::from_secs(messages) / self.per_second_max;
        let pay = |paid_until| nanoseconds(Duration::from_nanos(paid_until).max(now).saturating_add(time));
        let _before = bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| Some(pay(until)));
    }

    fn bucket(&self, peer: Peer) -> Option<&AtomicU64> {
        let hash = self.hasher.hash_one(address_of(peer)?);
        Some(&self.paid_until[hash as usize % self.paid_until.len()])
    }
}

/// Five centuries fit.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::Inet(text.parse().unwrap())
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn an_address_sends_as_many_as_a_second_has_and_then_at_the_rate() {
        let rate = AddressRate::new(100);
        let (one, same) = (peer("192.0.2.1:1"), peer("192.0.2.1:2"));
        assert_eq!(rate.wait_at(one, ms(5)), None);
        rate.add_at(one, 100, ms(0));
        assert_eq!(rate.wait_at(same, ms(0)), None, "the bucket is empty, and owes nothing");
        rate.add_at(same, 1, ms(0));
        assert_eq!(rate.wait_at(one, ms(0)), Some(ms(10)));
        assert_eq!(rate.wait_at(one, ms(10)), None);
        rate.add_at(one, 50, ms(10));
        assert_eq!(rate.wait_at(one, ms(10)), Some(ms(500)), "a read may bring more than there is");
        assert_eq!(rate.wait_at(one, ms(4000)), None);
        rate.add_at(one, 100, ms(4000));
        assert_eq!(rate.wait_at(one, ms(4000)), None, "no more than a second's worth is saved up");
        rate.add_at(one, 10, ms(4000));
        assert_eq!(rate.wait_at(one, ms(4000)), Some(ms(100)));
    }

    #[test]
    fn addresses_have_buckets_of_their_own_and_a_network_has_one() {
        let rate = AddressRate::new(1);
        rate.add_at(peer("[2001:db8::1]:1"), 1000, ms(0));
        assert!(rate.wait_at(peer("[2001:db8::ffff]:1"), ms(0)).is_some(), "the same network");
        let others = (0..=255).map(|number| peer(&format!("192.0.2.{number}:1")));
        let waiting = others.filter(|other| rate.wait_at(*other, ms(0)).is_some()).count();
        assert!(waiting < 4, "{waiting} of 256 share the bucket of one");
        assert_eq!(rate.wait_at(Peer::Unnamed, ms(0)), None);
    }

    /// The largest read of the shortest messages at the lowest rate.
    #[test]
    fn no_number_of_messages_overflows() {
        let rate = AddressRate::new(1);
        for _ in 0..3 {
            rate.add_at(peer("192.0.2.1:1"), u64::MAX, ms(0));
        }
        assert!(rate.wait_at(peer("192.0.2.1:1"), ms(0)).is_some());
    }
}
