//! Addresses whose HTTP/2 connections are floods: new connections of theirs come one after the other for a while.
//!
//! Invariant: connections that are open already are not touched.

use std::sync::Arc;
use std::time::Duration;

use bbq_wire::Peer;

use super::address_rate::AddressRate;
use super::peer_log::PeerLog;

/// Connections of an address in a second that may be floods or end with an error: an exporter with an error of its own ends one at
/// each try, and others may be behind the same address.
const PER_SECOND_MAX: u32 = 16;
/// Addresses in one bucket wait for each other, but only while one of them floods: 32 KiB.
const BUCKETS: usize = 4096;
/// Maximum time for which a new connection waits. One that would have to wait for longer is closed.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Whether a new connection is served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FloodAdmission {
    Now,
    After(Duration),
    Closed,
}

/// Shared by all workers and listeners.
#[derive(Debug)]
pub(crate) struct Floods(Arc<AddressRate>);

impl Floods {
    pub(crate) fn new() -> Arc<Floods> {
        Arc::new(Floods(AddressRate::new(PER_SECOND_MAX, BUCKETS)))
    }

    /// Reports who floods.
    pub(crate) fn log(&self) -> &PeerLog {
        self.0.log()
    }

    /// Decides about a new connection.
    pub(crate) fn admit(&self, peer: Peer) -> FloodAdmission {
        match self.0.wait(peer) {
            None => FloodAdmission::Now,
            Some(wait) if wait > WAIT_MAX => FloodAdmission::Closed,
            Some(wait) => {
                // The next one waits for longer.
                self.0.add(peer, 1);
                FloodAdmission::After(wait)
            }
        }
    }

    /// Counts a connection that was a flood. Many that end together close the door for no longer than the last of them.
    pub(crate) fn add(&self, peer: Peer) {
        if self.0.wait(peer).is_none_or(|wait| wait <= WAIT_MAX) {
            self.0.add(peer, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_floods_is_served_one_by_one_and_then_turned_away_and_others_are_not() {
        let floods = Floods::new();
        let peer = |text: &str| Peer::Inet(text.parse().unwrap());
        let (bad, good) = (peer("192.0.2.1:1"), peer("198.51.100.1:1"));
        for _ in 0..10_000 {
            floods.add(bad);
        }
        assert_eq!(floods.admit(bad), FloodAdmission::Closed);
        let owed = floods.0.wait(bad).unwrap();
        assert!(owed <= WAIT_MAX * 2, "10,000 floods close the door for {owed:?}");
        assert_eq!(floods.admit(good), FloodAdmission::Now);
        assert_eq!(floods.admit(Peer::Unnamed), FloodAdmission::Now);
    }

    #[test]
    fn connections_that_wait_wait_for_each_other() {
        let floods = Floods::new();
        let peer = Peer::Inet("192.0.2.1:1".parse().unwrap());
        while floods.0.wait(peer).is_none() {
            floods.add(peer);
        }
        let admitted: Vec<FloodAdmission> = (0..100).map(|_| floods.admit(peer)).collect();
        let waiting =
            admitted.iter().filter(|admission| matches!(admission, FloodAdmission::After(_))).count();
        // A slow machine may let one more in.
        assert!((1..=100).contains(&waiting) && admitted.contains(&FloodAdmission::Closed), "{admitted:?}");
        assert!(
            admitted.is_sorted_by_key(|admission| matches!(admission, FloodAdmission::Closed)),
            "{admitted:?}"
        );
    }
}
