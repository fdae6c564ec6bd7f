//! Lines and syslog over TCP, without acknowledgements. If the server has read a connection to its end and closed it in order,
//! all messages of the connection must be delivered, unless a kill came before they were on disk. From any other connection, only
//! a first part of the messages is delivered.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::client::{Client, Field, PATIENCE, pause};
use crate::book::Promise;
use crate::message::Message;
use crate::random::Random;

const BURST_MAX: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Lines,
    Syslog,
}

pub(super) struct Text {
    protocol: Protocol,
    server: SocketAddr,
    random: Random,
}

impl Text {
    pub(super) fn new(protocol: Protocol, server: SocketAddr, random: Random) -> Text {
        Text { protocol, server, random }
    }

    fn connection(&mut self, field: &Field) {
        let Ok(mut stream) = TcpStream::connect(self.server) else { return };
        let timeouts = stream.set_write_timeout(Some(PATIENCE)).and(stream.set_read_timeout(Some(PATIENCE)));
        if timeouts.is_err() {
            return;
        }
        let book = &field.book;
        let (epoch, stops) = (book.epoch(), book.stops());
        let run = book.begin(self.name(), Promise { ordered: true, no_holes: true, durable: false });
        let counts_octets = self.protocol == Protocol::Syslog && self.random.percent(50);
        for _ in 0..self.random.below(200) {
            let messages = self.random.below(BURST_MAX);
            let first = book.send(run, messages);
            let bytes = self.encode(run, first..first + messages, counts_octets);
            if stream.write_all(&bytes).is_err() {
                return;
            }
            if field.is_stopping() {
                break;
            }
            pause(&mut self.random, 40);
        }
        let ended = stream.shutdown(Shutdown::Write).and_then(|()| stream.read(&mut [0; 1]));
        if matches!(ended, Ok(0)) && stops.is_some() && (epoch, stops) == (book.epoch(), book.stops()) {
            book.acknowledge(run, book.send(run, 0), epoch);
        }
    }

    fn encode(&self, run: u32, numbers: std::ops::Range<u64>, counts_octets: bool) -> Vec<u8> {
        let (mut bytes, mut text) = (Vec::new(), Vec::new());
        for number in numbers {
            text.clear();
            if self.protocol == Protocol::Syslog {
                text.extend_from_slice(b"<13>");
            }
            Message { run, number }.write(&mut text);
            if counts_octets {
                bytes.extend_from_slice(format!("{} ", text.len()).as_bytes());
            } else {
                text.push(b'\n');
            }
            bytes.extend_from_slice(&text);
        }
        bytes
    }
}

impl Client for Text {
    fn name(&self) -> String {
        format!("{:?} over tcp", self.protocol)
    }

    fn work(&mut self, field: &Field) -> Result<(), String> {
        while !field.is_stopping() {
            self.connection(field);
            pause(&mut self.random, 40);
        }
        Ok(())
    }
}
