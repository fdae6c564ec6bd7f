//! Limits how many connections of a listener one address may have open. The IPv6 addresses of a /64 network count as one address.
//!
//! Invariant: an address is in the table only while it has a connection, so the table is no larger than the number of connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_stored::address_of;
use bbq_wire::Peer;

use super::peer_log::PeerLog;

/// Shared by all workers, and locked only when a connection is accepted or closed.
#[derive(Debug)]
pub struct AddressLimit {
    max: u32,
    open: Mutex<HashMap<IpAddr, u32>>,
    /// One of its own, so that lines about refused sessions do not suppress these.
    log: PeerLog,
}

/// The address has as many connections as it may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AddressFull;

impl AddressLimit {
    /// For at most `max` connections of each address.
    #[must_use]
    pub fn new(max: u32) -> Arc<AddressLimit> {
        Arc::new(AddressLimit { max, open: Mutex::default(), log: PeerLog::default() })
    }

    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    /// Reports who had too many.
    pub(crate) fn log(&self) -> &PeerLog {
        &self.log
    }

    /// Counts a new connection; `None` for a peer without an address.
    pub(crate) fn claim(self: &Arc<Self>, peer: Peer) -> Result<Option<Box<AddressShare>>, AddressFull> {
        self.count(peer, self.max)
    }

    /// Counts a connection that is open already, also beyond the limit.
    pub fn take(self: &Arc<Self>, peer: Peer) -> Option<Box<AddressShare>> {
        self.count(peer, u32::MAX).unwrap_or(None)
    }

    fn count(self: &Arc<Self>, peer: Peer, max: u32) -> Result<Option<Box<AddressShare>>, AddressFull> {
        let Some(address) = address_of(peer) else { return Ok(None) };
        let mut open = self.locked();
        let count = open.entry(address).or_insert(0);
        if *count >= max {
            return Err(AddressFull);
        }
        *count += 1;
        Ok(Some(Box::new(AddressShare { limit: Arc::clone(self), address })))
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection of an address, given back on drop. Boxed, as most listeners have no limit.
#[derive(Debug)]
pub struct AddressShare {
    limit: Arc<AddressLimit>,
    address: IpAddr,
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        let mut open = self.limit.locked();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
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
    fn each_address_has_its_own_share_and_gets_it_back() {
        let limit = AddressLimit::new(2);
        let first = limit.claim(peer("192.0.2.1:1")).unwrap();
        let _second = limit.claim(peer("192.0.2.1:2")).unwrap();
        assert_eq!(limit.claim(peer("192.0.2.1:3")).unwrap_err(), AddressFull);
        let other = limit.claim(peer("192.0.2.2:1")).unwrap();
        drop(first);
        let again = limit.claim(peer("192.0.2.1:4")).unwrap();
        assert!(again.is_some() && limit.claim(peer("192.0.2.1:5")).is_err());
        drop((other, again));
        assert_eq!(limit.locked().len(), 1, "an address without connections is not kept");
    }

    #[test]
    fn what_is_open_already_counts_beyond_the_limit() {
        let limit = AddressLimit::new(1);
        let kept: Vec<_> = (1..=3).map(|port| limit.take(peer(&format!("[2001:db8::{port}]:1")))).collect();
        assert!(limit.claim(peer("[2001:db8::ffff]:1")).is_err(), "the same network");
        drop(kept);
        assert!(limit.claim(peer("[2001:db8::ffff]:1")).is_ok());
        assert!(limit.claim(Peer::Unnamed).unwrap().is_none());
    }
}
