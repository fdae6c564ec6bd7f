//! Limits how often a line about a peer is logged: once a minute for each address, over all workers. The IPv6 addresses of a /64
//! network count as one address, because one machine usually has them all.
//!
//! Invariant: at most `ADDRESSES_MAX` lines a minute, however many peers there are.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bbq_stored::address_of;
use bbq_wire::Peer;

/// Time between two lines about an address.
const INTERVAL: Duration = Duration::from_secs(60);
/// Addresses that are told apart within a minute: as many lines as a person reads. Lines about other addresses are counted; the
/// next line about a new address tells how many.
const ADDRESSES_MAX: usize = 64;

/// What a listener has lately logged about refused and broken connections.
#[derive(Debug, Default)]
pub struct PeerLog(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    lines: Vec<Line>,
    /// Lines left out about addresses that had no room here.
    others: u64,
}

/// The last line about an address.
#[derive(Debug)]
struct Line {
    address: Option<IpAddr>,
    at: Instant,
    left_out: u64,
}

impl PeerLog {
    /// Returns the number of lines left out since the last one if a line is due now, and `None` if it is to be left out.
    pub(crate) fn report(&self, peer: Peer) -> Option<u64> {
        self.report_at(address_of(peer), Instant::now())
    }

    fn report_at(&self, address: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |line: &Line| now.saturating_duration_since(line.at) >= INTERVAL;
        if let Some(line) = recent.lines.iter_mut().find(|line| line.address == address) {
            if !is_old(line) {
                line.left_out += 1;
                return None;
            }
            line.at = now;
            return Some(std::mem::take(&mut line.left_out));
        }
        let line = Line { address, at: now, left_out: 0 };
        if recent.lines.len() < ADDRESSES_MAX {
            recent.lines.push(line);
        } else if let Some(old) = recent.lines.iter_mut().find(|line| is_old(line)) {
            let unsaid = std::mem::replace(old, line).left_out;
            recent.others += unsaid;
        } else {
            recent.others += 1;
            return None;
        }
        Some(std::mem::take(&mut recent.others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_once_a_minute_and_the_minute_has_a_limit() {
        let (log, start) = (PeerLog::default(), Instant::now());
        let address = |number: u8| Some(IpAddr::from([192, 0, 2, number]));
        let (soon, later) = (start + INTERVAL / 2, start + INTERVAL);
        assert_eq!(log.report_at(address(0), start), Some(0));
        assert_eq!(log.report_at(address(0), soon), None);
        assert_eq!(log.report_at(None, start), Some(0), "somebody else");
        assert_eq!(log.report_at(address(0), later), Some(1));
        let told = (1..=200).filter(|number| log.report_at(address(*number), later).is_some()).count();
        // The line without an address is old, and its place is taken.
        assert_eq!(told, ADDRESSES_MAX - 1);
        assert_eq!(log.report_at(address(0), later + INTERVAL), Some(0));
        assert_eq!(log.report_at(address(201), later + INTERVAL), Some(200 - 63));
    }
}
