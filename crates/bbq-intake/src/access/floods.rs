//! Addresses whose HTTP/2 connections are floods: for a while, they get only some new ones, and share how fast those that flood are read.
//!
//! Invariant: an open connection that sends messages is read as before. Invariant: the time gets longer by floods alone, and not by new
//! connections.

use std::sync::Arc;
use std::time::Duration;

use bbq_wire::Peer;

use super::address_rate::AddressRate;
use super::peer_log::PeerLog;

/// How often in a second connections of an address may end as floods, or send too much: an exporter with an error of its own ends one at
/// each try, and others may be behind the same address. While it is more often, the address gets so many new ones.
const PER_SECOND_MAX: u32 = 16;
/// What the connections of an address may send together in a second beside messages, when each has sent more than it may at once, in
/// bytes. As much as four connections may: some 16,000 PING frames, for which a worker needs some milliseconds.
const EXCESS_PER_SECOND_MAX: u32 = 256 * 1024;
/// Addresses in one bucket are limited together, but only while one of them floods. They take 32 KiB for each of the rates.
const BUCKETS: usize = 4096;
/// How long the limit lasts behind the last flood, at most.
const LIMITED_MAX: Duration = Duration::from_secs(1);

/// Shared by all workers and listeners.
#[derive(Debug)]
pub struct Floods {
    floods: AddressRate,
    /// New connections of addresses that are limited.
    admitted: AddressRate,
    excess: AddressRate,
}

/// What becomes of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewConnection {
    Served,
    /// Its address floods: it may send less beside its messages.
    ServedWarily,
    TurnedAway,
}

impl Floods {
    /// No address floods yet.
    #[must_use]
    pub fn new() -> Arc<Floods> {
        let rate = |per_second_max| AddressRate::with_buckets(per_second_max, BUCKETS);
        Arc::new(Floods {
            floods: rate(PER_SECOND_MAX),
            admitted: rate(PER_SECOND_MAX),
            excess: rate(EXCESS_PER_SECOND_MAX),
        })
    }

    /// Reports who floods.
    pub(crate) fn log(&self) -> &PeerLog {
        self.floods.log()
    }

    /// What becomes of a new connection.
    pub(crate) fn admit(&self, peer: Peer) -> NewConnection {
        if self.floods.wait(peer).is_none() {
            return NewConnection::Served;
        }
        if self.admitted.wait(peer).is_some() {
            return NewConnection::TurnedAway;
        }
        self.admitted.add(peer, 1);
        NewConnection::ServedWarily
    }

    /// Counts what a connection sent beside its messages and more than it may, in bytes; as a flood, if all of its address sent too much.
    /// Returns for how long that has to wait.
    pub(crate) fn add_excess(&self, peer: Peer, bytes: u64) -> Duration {
        self.excess.add(peer, bytes);
        let Some(wait) = self.excess.wait(peer) else { return Duration::ZERO };
        self.add(peer);
        wait
    }

    /// Counts a flood.
    pub(crate) fn add(&self, peer: Peer) {
        if self.floods.wait(peer).is_none_or(|wait| wait <= LIMITED_MAX) {
            self.floods.add(peer, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::Inet(text.parse().unwrap())
    }

    #[test]
    fn an_address_that_floods_gets_some_connections_and_others_get_all() {
        let floods = Floods::new();
        let (bad, good) = (peer("192.0.2.1:1"), peer("198.51.100.1:1"));
        let is_served = |peer| floods.admit(peer) == NewConnection::Served;
        assert!((0..1000).all(|_| is_served(bad)), "it has not flooded yet");
        for _ in 0..10_000 {
            floods.add(bad);
        }
        let admitted = (0..1000).filter(|_| floods.admit(bad) == NewConnection::ServedWarily).count();
        // A slow machine lets some more in.
        assert!((1..500).contains(&admitted), "{admitted}");
        assert!((0..1000).all(|_| is_served(good) && is_served(Peer::Unnamed)));
    }

    #[test]
    fn connections_of_an_address_share_what_they_may_send_too_much_and_others_have_their_own() {
        let floods = Floods::new();
        let (bad, good) = (peer("192.0.2.1:1"), peer("198.51.100.1:1"));
        let second = u64::from(EXCESS_PER_SECOND_MAX);
        assert_eq!(floods.add_excess(bad, second / 2), Duration::ZERO);
        for _ in 0..100 {
            floods.add_excess(bad, second / 10);
        }
        let wait = floods.add_excess(bad, 1);
        assert!(wait > Duration::from_secs(5), "{wait:?}");
        assert_eq!(floods.admit(bad), NewConnection::ServedWarily);
        assert_eq!(floods.admit(good), NewConnection::Served);
        assert_eq!(floods.add_excess(good, second / 2), Duration::ZERO);
    }

    #[test]
    fn the_limit_ends_soon_after_the_last_flood_whoever_comes_meanwhile() {
        let floods = Floods::new();
        let peer = peer("192.0.2.1:1");
        for _ in 0..10_000 {
            floods.add(peer);
        }
        let limited = floods.floods.wait(peer).unwrap();
        assert!(limited <= LIMITED_MAX + Duration::from_millis(100), "{limited:?}");
        let _some = (0..10_000).filter(|_| floods.admit(peer) != NewConnection::TurnedAway).count();
        assert!(floods.floods.wait(peer).is_none_or(|wait| wait <= limited));
    }
}
