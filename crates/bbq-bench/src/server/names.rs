//! As much of DNS as answers from memory: a query is looked up by its question's bytes, and its answer is one address.
//!
//! Not a name server: that is the example `dns_cache` of bbq-listen, which reads zones and checks what it is asked.

use std::array;
use std::collections::HashMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bbq_listen::{AsyncDatagrams, DATAGRAMS_PER_CALL, Errno, WorkerListener};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

use super::stop::Stop;
use crate::load::names::{HEADER_BYTES, NAMES, question};

/// Longer queries are none.
const QUERY_BYTES_MAX: usize = 512;
/// An A record of the name in the question: pointer to it, type, class, an hour, four bytes of address.
const RECORD: [u8; 16] = [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1];

/// Answers until `stop`.
pub(super) async fn answer(
    worker_listener: WorkerListener,
    stop: Stop,
    count: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let known: HashMap<Vec<u8>, [u8; 16]> = (0..NAMES).map(|index| (question(index), RECORD)).collect();
    let socket = Arc::clone(worker_listener.socket());
    let mut datagrams = AsyncDatagrams::with_datagram_bytes_max(worker_listener, QUERY_BYTES_MAX)?;
    let mut outbox = Outbox::new();
    let mut stop = pin!(stop.requested());
    loop {
        let turn = datagrams.receive_batch(|datagram| {
            let Some(peer) = datagram.peer.0 else { return };
            if outbox.add(peer, datagram.bytes, &known) {
                count.fetch_add(outbox.send(&socket), Relaxed);
            }
        });
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            turn = turn => turn.map(drop)?,
        }
        count.fetch_add(outbox.send(&socket), Relaxed);
    }
}

/// Answers that leave together.
struct Outbox {
    answers: [Vec<u8>; DATAGRAMS_PER_CALL],
    peers: Vec<SocketAddrAny>,
}

impl Outbox {
    fn new() -> Outbox {
        Outbox { answers: array::from_fn(|_| Vec::new()), peers: Vec::with_capacity(DATAGRAMS_PER_CALL) }
    }

    /// Answers a query; whether it is full now.
    fn add(&mut self, peer: SocketAddr, query: &[u8], known: &HashMap<Vec<u8>, [u8; 16]>) -> bool {
        let Some(question) = query.get(HEADER_BYTES..) else { return false };
        let found = known.get(question);
        let answer = &mut self.answers[self.peers.len()];
        answer.clear();
        answer.extend_from_slice(&query[..2]);
        // An answer with authority; NXDOMAIN where there is none. One question, one answer or none.
        let (code, records) = if found.is_some() { (0, 1) } else { (3, 0) };
        answer.extend_from_slice(&[0x84 | (query[2] & 1), code, 0, 1, 0, records, 0, 0, 0, 0]);
        answer.extend_from_slice(question);
        answer.extend_from_slice(found.map_or(&[], |record| &record[..]));
        self.peers.push(peer.into());
        self.peers.len() == DATAGRAMS_PER_CALL
    }

    /// How many left; who asked asks again for the others, as ever with UDP.
    fn send(&mut self, socket: &bbq_listen::Socket) -> u64 {
        let slices: [[IoSlice<'_>; 1]; DATAGRAMS_PER_CALL] =
            array::from_fn(|index| [IoSlice::new(&self.answers[index])]);
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; DATAGRAMS_PER_CALL] =
            array::from_fn(|_| SendAncillaryBuffer::default());
        let mut messages = Vec::with_capacity(self.peers.len());
        for ((peer, slice), control) in self.peers.iter().zip(&slices).zip(&mut controls) {
            messages.push(MMsgHdr::new_with_addr(peer, slice, control));
        }
        let (mut rest, mut sent) = (&mut messages[..], 0);
        while !rest.is_empty() {
            let done = match sendmmsg(socket, rest, SendFlags::DONTWAIT) {
                Ok(count) => {
                    sent += count as u64;
                    count
                }
                Err(Errno::INTR) => 0,
                Err(_) => 1,
            };
            rest = &mut rest[done..];
        }
        drop(messages);
        self.peers.clear();
        sent
    }
}
