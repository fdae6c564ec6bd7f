//! The attributes of a batch, behind its records: for now, the peers of the records.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{BatchError, varint};

/// Key of the peers attribute.
const KEY_PEERS: u32 = 1;

/// Where a record came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A socket without addresses (unix), or an unknown peer.
    Unnamed,
    /// An internet address and port.
    Inet(SocketAddr),
}

impl Peer {
    /// Writes kind, address and port (the port little-endian, as every number here).
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Peer::Unnamed => out.push(0),
            Peer::Inet(SocketAddr::V4(address)) => {
                out.push(4);
                out.extend_from_slice(&address.ip().octets());
                out.extend_from_slice(&address.port().to_le_bytes());
            }
            Peer::Inet(SocketAddr::V6(address)) => {
                out.push(6);
                out.extend_from_slice(&address.ip().octets());
                out.extend_from_slice(&address.port().to_le_bytes());
            }
        }
    }

    /// Reads one peer from the front of `input` and moves `input` behind it.
    #[must_use]
    pub fn decode(input: &mut &[u8]) -> Option<Peer> {
        let (kind, rest) = input.split_first()?;
        let (peer, rest) = match kind {
            0 => (Peer::Unnamed, rest),
            4 => {
                let (address, rest) = rest.split_first_chunk::<4>()?;
                let (port, rest) = rest.split_first_chunk::<2>()?;
                (
                    Peer::Inet(SocketAddr::new(
                        IpAddr::V4(Ipv4Addr::from(*address)),
                        u16::from_le_bytes(*port),
                    )),
                    rest,
                )
            }
            6 => {
                let (address, rest) = rest.split_first_chunk::<16>()?;
                let (port, rest) = rest.split_first_chunk::<2>()?;
                (
                    Peer::Inet(SocketAddr::new(
                        IpAddr::V6(Ipv6Addr::from(*address)),
                        u16::from_le_bytes(*port),
                    )),
                    rest,
                )
            }
            _ => return None,
        };
        *input = rest;
        Some(peer)
    }
}

/// The runs of the peers attribute: how many records in a row came from whom.
#[derive(Clone, Debug)]
pub struct PeerRuns<'a> {
    runs: Runs<'a>,
    /// Records of the first run that were skipped; less than it has.
    passed: u32,
}

impl PeerRuns<'_> {
    /// Skips `records` records.
    pub(super) fn pass_over(&mut self, mut records: u32) {
        let mut next = self.clone();
        while let Some((run, _)) = next.next() {
            if records < run {
                self.passed += records;
                return;
            }
            records -= run;
            *self = next.clone();
        }
    }
}

impl Iterator for PeerRuns<'_> {
    type Item = (u32, Peer);

    #[inline]
    fn next(&mut self) -> Option<(u32, Peer)> {
        let (records, peer) = self.runs.next()?;
        Some((records.saturating_sub(std::mem::take(&mut self.passed)), peer))
    }
}

/// The encoded runs.
#[derive(Clone, Debug)]
struct Runs<'a> {
    rest: &'a [u8],
}

impl Iterator for Runs<'_> {
    type Item = (u32, Peer);

    fn next(&mut self) -> Option<(u32, Peer)> {
        let mut rest = self.rest;
        let run = (varint::take(&mut rest)?, Peer::decode(&mut rest)?);
        // Advances by whole runs only; `read` checks the rest of a cut one.
        self.rest = rest;
        Some(run)
    }
}

/// Appends the peers attribute, `runs` being its encoded value.
pub(super) fn put_peers(runs: &[u8], out: &mut Vec<u8>) {
    varint::put(KEY_PEERS, out);
    varint::put(u32::try_from(runs.len()).unwrap_or(u32::MAX), out);
    out.extend_from_slice(runs);
}

/// Appends one run to the value of a peers attribute.
pub(super) fn put_run(records: u32, peer: Peer, runs: &mut Vec<u8>) {
    varint::put(records, runs);
    peer.encode(runs);
}

/// Reads all attributes, and returns the peers, which name every one of the `records` or none.
///
/// # Errors
/// [`BatchError::Attributes`] when a length, or a known value, does not fit.
pub(super) fn read(mut attributes: &[u8], records: u32) -> Result<PeerRuns<'_>, BatchError> {
    let mut peers: &[u8] = &[];
    while !attributes.is_empty() {
        let key = varint::take(&mut attributes).ok_or(BatchError::Attributes)?;
        let bytes = varint::take(&mut attributes).ok_or(BatchError::Attributes)? as usize;
        let (value, rest) = attributes.split_at_checked(bytes).ok_or(BatchError::Attributes)?;
        attributes = rest;
        if key == KEY_PEERS {
            peers = value;
        }
    }
    let mut walk = Runs { rest: peers };
    let named: u64 = walk.by_ref().map(|(records, _)| u64::from(records)).sum();
    if walk.rest.is_empty() && (peers.is_empty() || named == u64::from(records)) {
        Ok(PeerRuns { runs: Runs { rest: peers }, passed: 0 })
    } else {
        Err(BatchError::Attributes)
    }
}
