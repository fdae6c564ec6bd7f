//! Datagrams: some may be lost, but none may be delivered twice.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use bbq_wire::batch::BatchIdentity;
use bbq_wire::{BatchBuilder, Compression, SourceKind, StreamId};

use super::client::{Client, Field, pause};
use crate::book::Promise;
use crate::message::Message;
use crate::random::Random;

/// The most messages at a time. The kernel's buffer has room for more.
const BURST_MAX: u64 = 50;
/// The most messages in one datagram of batches.
const BATCH_MAX: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Syslog,
    Bbq,
}

pub(super) struct Datagrams {
    protocol: Protocol,
    server: SocketAddr,
    random: Random,
}

impl Datagrams {
    pub(super) fn new(protocol: Protocol, server: SocketAddr, random: Random) -> Datagrams {
        Datagrams { protocol, server, random }
    }

    fn datagram(&mut self, run: u32, first: u64, messages: u64, stream: StreamId) -> Option<Vec<u8>> {
        let text = |number| {
            let mut text = if self.protocol == Protocol::Syslog { b"<13>".to_vec() } else { Vec::new() };
            Message { run, number }.write(&mut text);
            text
        };
        if self.protocol == Protocol::Syslog {
            return Some(text(first));
        }
        let mut builder = BatchBuilder::new();
        (first..first + messages).for_each(|number| builder.push(&text(number)));
        let identity = BatchIdentity {
            stream,
            first_sequence: first + 1,
            base_time_ns: 1,
            source: SourceKind::Bbq,
            compression: Compression::None,
        };
        builder.finish(&identity).map(<[u8]>::to_vec)
    }
}

impl Client for Datagrams {
    fn name(&self) -> String {
        format!("{:?} over udp", self.protocol)
    }

    fn work(&mut self, field: &Field) -> Result<(), String> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(|error| format!("cannot open a socket: {error}"))?;
        let run = field.book.begin(self.name(), Promise::default());
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.random.next().to_le_bytes());
        id[8..].copy_from_slice(&self.random.next().to_le_bytes());
        while !field.is_stopping() {
            for _ in 0..self.random.below(BURST_MAX) {
                let messages =
                    if self.protocol == Protocol::Bbq { 1 + self.random.below(BATCH_MAX) } else { 1 };
                let first = field.book.send(run, messages);
                if let Some(bytes) = self.datagram(run, first, messages, StreamId(id)) {
                    // If no server listens, the next send reports that.
                    let _may_be_refused = socket.send_to(&bytes, self.server);
                }
            }
            pause(&mut self.random, 40);
        }
        Ok(())
    }
}
