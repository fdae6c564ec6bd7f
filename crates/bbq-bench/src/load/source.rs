//! Where the connections of a load come from: each from an address and a port of its own.
//!
//! From one address, the kernel's search for a free port soon costs more than all that is measured. So a port is named, and
//! the addresses are those of 127.0.0.0/8; the pair comes again after 1,800 million connections.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::interrupt;

/// Below what most systems hand out by themselves to programs that name no port, up to where services end.
const PORTS: std::ops::Range<u64> = 10_000..32_000;
/// 127.1.1.1 to 127.254.254.254, no part of it 0 or 255.
const ADDRESSES: u64 = 254 * 254 * 254;
/// Pairs that are tried before it is an error: a port may be in use on all addresses.
const TRIES: usize = 64;
/// A connection that takes longer than this to be made has failed.
const CONNECT_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// Gives every connection its source.
#[derive(Debug)]
pub(crate) struct Sources(AtomicU64);

impl Sources {
    /// Begins somewhere else each time: the pairs of an earlier run may be in TIME_WAIT.
    pub(crate) fn new() -> anyhow::Result<Sources> {
        let somewhere = getrandom::u32().context("no random number")?;
        Ok(Sources(AtomicU64::new(u64::from(somewhere) << 8)))
    }

    fn next(&self) -> SocketAddrV4 {
        source(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// A blocking socket that is bound to the next one.
    fn bound(&self, kind: Type) -> anyhow::Result<Socket> {
        let socket = Socket::new(Domain::IPV4, kind, None).context("socket")?;
        for _ in 0..TRIES {
            match socket.bind(&SockAddr::from(self.next())) {
                Ok(()) => return Ok(socket),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {}
                Err(error) => return Err(error).context("bind of a client"),
            }
        }
        anyhow::bail!("{TRIES} ports were in use, one after the other: another load runs on this machine")
    }

    /// A connection to `server`, blocking, made in time.
    pub(crate) fn connect(&self, server: SocketAddrV4) -> anyhow::Result<Socket> {
        interrupt::check()?; // a load may make many
        let socket = self.bound(Type::STREAM)?;
        socket.set_write_timeout(Some(CONNECT_WITHIN)).context("SO_SNDTIMEO")?; // bounds connect as well
        let to = SockAddr::from(server);
        loop {
            match socket.connect(&to) {
                Ok(()) => return Ok(socket),
                Err(error) => match Errno::from_io_error(&error) {
                    // A signal came between: it goes on, and the next call waits for it.
                    Some(Errno::INTR | Errno::ALREADY) => {}
                    Some(Errno::ISCONN) => return Ok(socket),
                    _ => return Err(error).with_context(|| format!("cannot connect to {server}")),
                },
            }
        }
    }

    /// A UDP socket whose peer is `server`.
    pub(crate) fn datagrams_to(&self, server: SocketAddrV4) -> anyhow::Result<Socket> {
        let socket = self.bound(Type::DGRAM)?;
        socket.connect(&SockAddr::from(server)).with_context(|| format!("cannot send to {server}"))?;
        Ok(socket)
    }
}

/// Ports change faster than addresses, so that no port has many connections.
fn source(number: u64) -> SocketAddrV4 {
    let ports = PORTS.end - PORTS.start;
    let port = PORTS.start + number % ports;
    let address = number / ports % ADDRESSES;
    let part = |place: u32| (1 + address / 254_u64.pow(place) % 254) as u8; // below 255
    SocketAddrV4::new(Ipv4Addr::new(127, part(2), part(1), part(0)), port as u16) // below 32,000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_differ_and_stay_in_their_ranges() {
        let mut seen = std::collections::HashSet::new();
        let of_each_address = (0..254 * 254).map(|address| address * (PORTS.end - PORTS.start));
        for number in of_each_address
            .chain(1..20_000)
            .chain((u64::from(u32::MAX) << 8) - 1000..u64::from(u32::MAX) << 8)
        {
            let source = source(number);
            let [first, rest @ ..] = source.ip().octets();
            assert_eq!(first, 127);
            assert!(rest.iter().all(|part| (1..=254).contains(part)), "{source}");
            assert!(PORTS.contains(&u64::from(source.port())), "{source}");
            assert!(seen.insert(source), "{source} came twice");
        }
    }
}
