//! Datagrams that wait to be sent together: one system call for many.

use std::array;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use bbq_listen::{DATAGRAMS_PER_CALL, Errno};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

/// As many as are received by one call.
pub(crate) struct Outbox {
    datagrams: [Vec<u8>; DATAGRAMS_PER_CALL],
    peers: [SocketAddrAny; DATAGRAMS_PER_CALL],
    /// Of them in use. 0 <= count <= DATAGRAMS_PER_CALL.
    count: usize,
    sent: u64,
    failed: u64,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        let nobody = SocketAddrAny::from(SocketAddr::from(([0, 0, 0, 0], 0)));
        Self {
            datagrams: array::from_fn(|_| Vec::new()),
            peers: array::from_fn(|_| nobody.clone()),
            count: 0,
            sent: 0,
            failed: 0,
        }
    }

    /// Datagrams sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Datagrams that the kernel did not take: its buffer is full, or there is no way to the peer. Those who asked ask
    /// again, as ever with UDP.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Room for a datagram to `peer`; `fill` returns whether it is to be sent.
    pub(crate) fn add(&mut self, peer: SocketAddr, fill: impl FnOnce(&mut Vec<u8>) -> bool) {
        let datagram = &mut self.datagrams[self.count];
        datagram.clear();
        if fill(datagram) {
            self.peers[self.count] = peer.into();
            self.count += 1;
        }
    }

    /// Whether it must be sent before anything is added.
    pub(crate) fn is_full(&self) -> bool {
        self.count == DATAGRAMS_PER_CALL
    }

    /// Sends all of them from `socket`, and waits for nothing.
    pub(crate) fn send(&mut self, socket: impl AsFd) {
        let slices: [[IoSlice<'_>; 1]; DATAGRAMS_PER_CALL] =
            array::from_fn(|index| [IoSlice::new(&self.datagrams[index])]);
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; DATAGRAMS_PER_CALL] =
            array::from_fn(|_| SendAncillaryBuffer::default());
        let mut places = self.peers.iter().zip(&slices);
        let mut messages: Vec<MMsgHdr<'_>> = Vec::with_capacity(self.count);
        for control in controls.iter_mut().take(self.count) {
            if let Some((peer, slice)) = places.next() {
                messages.push(MMsgHdr::new_with_addr(peer, slice, control));
            }
        }
        let mut rest = &mut messages[..];
        while !rest.is_empty() {
            let done = match sendmmsg(&socket, rest, SendFlags::DONTWAIT) {
                Ok(sent) => {
                    self.sent += sent as u64;
                    sent
                }
                Err(Errno::INTR) => 0,
                Err(Errno::AGAIN) => {
                    self.failed += rest.len() as u64;
                    break;
                }
                Err(_) => {
                    self.failed += 1; // it is of the first one; those behind it may do better
                    1
                }
            };
            rest = &mut rest[done..];
        }
        self.count = 0;
    }
}
