//! Connections, whose bytes arrive late, in pieces of any size, or never.
//!
//! Bytes that one end writes are *in flight* until they are delivered, perhaps byte by byte. Then they have *arrived*, until the
//! other end reads them. A connection that its client has given up still delivers the bytes in flight. So the server may read a
//! hello long after the hello of a newer connection.

use std::collections::{BTreeMap, VecDeque};

use crate::random::Random;

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    flight: VecDeque<u8>,
    /// Bytes that are delivered and not read yet.
    pub(crate) arrived: Vec<u8>,
    /// The writer has ended.
    closed: bool,
    /// Nothing is delivered any more.
    cut: bool,
}

impl Pipe {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if !self.closed && !self.cut {
            self.flight.extend(bytes);
        }
    }

    /// The reader consumes this many of the arrived bytes.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.arrived.drain(..bytes);
    }

    /// Bytes that are written and not delivered yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the reader has read everything up to the end.
    pub(crate) fn is_at_end(&self) -> bool {
        self.cut || (self.closed && self.flight.is_empty())
    }

    fn deliver(&mut self, bytes: usize) -> usize {
        let bytes = bytes.min(self.flight.len());
        self.arrived.extend(self.flight.drain(..bytes));
        bytes
    }

    fn cut(&mut self, random: &mut Random) {
        let arrive = random.index(self.flight.len() + 1);
        self.deliver(arrive);
        self.flight.clear();
        self.cut = true;
    }
}

/// A connection between a client and a server, or of a server that passes on to the next one.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The number of the server.
    pub(crate) server: usize,
    /// Bytes to the server.
    pub(crate) up: Pipe,
    /// Bytes to the client.
    pub(crate) down: Pipe,
    /// The client has dropped it.
    left: bool,
    /// The server has dropped it.
    pub(crate) done: bool,
}

/// All connections, by number.
#[derive(Debug, Default)]
pub(crate) struct Network {
    connections: BTreeMap<u64, Connection>,
    made: u64,
}

impl Network {
    /// A client connects to a server, which may accept the connection later.
    pub(crate) fn connect(&mut self, server: usize) -> u64 {
        self.made += 1;
        let (up, down) = (Pipe::default(), Pipe::default());
        self.connections.insert(self.made, Connection { server, up, down, left: false, done: false });
        self.made
    }

    pub(crate) fn get(&mut self, number: u64) -> Option<&mut Connection> {
        self.connections.get_mut(&number)
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.connections.keys().copied().collect()
    }

    /// Any connection.
    pub(crate) fn any(&self, random: &mut Random) -> Option<u64> {
        let at = random.index(self.connections.len().max(1));
        self.connections.keys().nth(at).copied()
    }

    /// Delivers up to this many bytes each way; returns how many were delivered.
    pub(crate) fn deliver(&mut self, number: u64, bytes: usize) -> usize {
        let Some(connection) = self.connections.get_mut(&number) else { return 0 };
        let delivered = connection.up.deliver(bytes) + connection.down.deliver(bytes);
        self.forget(number);
        delivered
    }

    /// The client gives the connection up. The bytes that it has written still arrive.
    pub(crate) fn leave(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.up.close();
            connection.left = true;
        }
        self.forget(number);
    }

    /// Breaks the connection for both ends, after some of the bytes in flight were delivered.
    pub(crate) fn cut(&mut self, number: u64, random: &mut Random) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.up.cut(random);
            connection.down.cut(random);
        }
    }

    /// The numbers of a server's connections.
    pub(crate) fn numbers_of(&self, server: usize) -> Vec<u64> {
        let of_server =
            |(number, connection): (&u64, &Connection)| (connection.server == server).then_some(*number);
        self.connections.iter().filter_map(of_server).collect()
    }

    /// A server's process ends. This breaks all its connections.
    pub(crate) fn server_ends(&mut self, server: usize, random: &mut Random) {
        for number in self.numbers_of(server) {
            self.cut(number, random);
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.done = true;
            }
            self.forget(number);
        }
    }

    /// The server closes a connection. The client can still read what the server has written.
    pub(crate) fn finish(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.down.close();
            connection.done = true;
        }
        self.forget(number);
    }

    fn forget(&mut self, number: u64) {
        if self.connections.get(&number).is_some_and(|connection| connection.left && connection.done) {
            self.connections.remove(&number);
        }
    }
}
