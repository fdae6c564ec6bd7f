//! Addresses whose HTTP/2 connections are floods: for a while, they get only some new ones.
//!
//! Invariant: connections that are open already are not touched. Invariant: only floods prolong the time, and not who comes meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bbq_wire::Peer;

use super::address_rate::AddressRate;
use super::peer_log::PeerLog;

/// Connections of an address in a second that may be floods: an exporter with an error of its own ends one at each try, and others may
/// be behind the same address. While there are more, the address gets so many new ones.
const PER_SECOND_MAX: u32 = 16;
/// Addresses in one bucket are limited together, but only while one of them floods. They take 32 KiB for each of the two rates.
const BUCKETS: usize = 4096;
/// How long the limit lasts behind the last flood, at most.
const LIMITED_MAX: Duration = Duration::from_secs(1);

/// Shared by all workers and listeners.
#[derive(Debug)]
pub(crate) struct Floods {
    floods: AddressRate,
    /// New connections of addresses that are limited.
    admitted: AddressRate,
}

impl Floods {
    pub(crate) fn new() -> Arc<Floods> {
        let rate = || AddressRate::with_buckets(PER_SECOND_MAX, BUCKETS);
        Arc::new(Floods { floods: rate(), admitted: rate() })
    }

    /// Reports who floods.
    pub(crate) fn log(&self) -> &PeerLog {
        self.floods.log()
    }

    /// Whether a new connection is served.
    pub(crate) fn admits(&self, peer: Peer) -> bool {
        if self.floods.wait(peer).is_none() {
            return true;
        }
        let has_place = self.admitted.wait(peer).is_none();
        if has_place {
            self.admitted.add(peer, 1);
        }
        has_place
    }

    /// Counts a connection that was a flood.
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
        assert!((0..1000).all(|_| floods.admits(bad)), "it has not flooded yet");
        for _ in 0..10_000 {
            floods.add(bad);
        }
        let admitted = (0..1000).filter(|_| floods.admits(bad)).count();
        // A slow machine lets some more in.
        assert!((1..500).contains(&admitted), "{admitted}");
        assert!((0..1000).all(|_| floods.admits(good) && floods.admits(Peer::Unnamed)));
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
        let _some = (0..10_000).filter(|_| floods.admits(peer)).count();
        assert!(floods.floods.wait(peer).is_none_or(|wait| wait <= limited));
    }
}
