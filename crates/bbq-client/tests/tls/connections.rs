//! If this fails, acknowledgements stand still because the server takes no batch, messages are lost or stored twice when a TLS
//! connection ends, or a server that changes its keys is not understood.

use std::io::{self, Read, Write};
use std::time::Instant;

use bbq_client::Sender;
use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::accept;
use crate::authority::{Authority, BOTH, ONLY_13};
use crate::support::{Connection, PATIENCE, Setup, acknowledged};

const FIRST: u64 = 1000;
const MESSAGE: [u8; 1000] = [b'm'; 1000];

/// A sender with messages, the first of which the server has received, and its connection.
fn begin(setup: &Setup, authority: &Authority) -> (Sender, Connection) {
    let sender = setup.sender_to("bbq+tls://").tls_ca(authority.ca()).start().unwrap();
    let connection = welcome(setup, authority, 0);
    (sender, connection)
}

fn welcome(setup: &Setup, authority: &Authority, last_sequence: u64) -> Connection {
    let mut connection = Connection::over(accept(setup, &authority.server()));
    connection.hello();
    connection.welcome(last_sequence);
    connection
}

/// Reads batches with the records from one to another.
fn receive(connection: &mut Connection, from: u64, until: u64) {
    let mut next = from;
    while next <= until {
        let batch = connection.batch().unwrap();
        assert_eq!(batch.header.first_sequence, next);
        next += batch.records.len() as u64;
        assert!(batch.records.iter().all(|record| *record == MESSAGE));
    }
}

#[test]
fn acknowledgements_arrive_while_the_server_takes_no_batch() {
    // Little fits between the two, so that the thread that writes waits for the server.
    const MORE: u64 = 24_000;
    let (setup, authority) = (Setup::new(), Authority::new("the CA"));
    set_socket_recv_buffer_size(&setup.listener, 64 * 1024).unwrap();
    let (sender, mut connection) = begin(&setup, &authority);
    (0..FIRST).for_each(|_| sender.send(&MESSAGE).unwrap());
    receive(&mut connection, 1, FIRST);
    (0..MORE).for_each(|_| sender.send(&MESSAGE).unwrap());
    let start = Instant::now();
    for number in 1..=FIRST {
        connection.ack(number);
        acknowledged(&sender, number);
        assert!(start.elapsed() < PATIENCE, "only {number} arrived");
    }
    let counters = sender.counters();
    assert_eq!((counters.queued, counters.reconnects), (MORE, 0), "{counters:?}");
    receive(&mut connection, FIRST + 1, FIRST + MORE);
    connection.ack(FIRST + MORE);
    sender.flush(PATIENCE).unwrap();
    assert_eq!(sender.counters().reconnects, 0);
}

#[test]
fn a_connection_that_ends_in_order_or_not_is_made_again_and_the_rest_is_sent_again() {
    for in_order in [true, false] {
        let (setup, authority) = (Setup::new(), Authority::new("the CA"));
        let sender = setup.sender_to("bbq+tls://").tls_ca(authority.ca()).start().unwrap();
        (0..10).for_each(|_| sender.send(&MESSAGE).unwrap());
        let mut connection =
            Connection::over(Ending { stream: accept(&setup, &authority.server()), in_order });
        connection.hello();
        connection.welcome(0);
        receive(&mut connection, 1, 1);
        connection.ack(4);
        acknowledged(&sender, 4);
        drop(connection);
        let mut connection = welcome(&setup, &authority, 4);
        receive(&mut connection, 5, 10);
        connection.ack(10);
        sender.flush(PATIENCE).unwrap();
        let counters = sender.counters();
        assert_eq!((counters.reconnects, counters.protocol_errors), (1, 0), "{counters:?}");
    }
}

/// Ends TLS in order, or only its socket.
struct Ending {
    stream: crate::TlsStream,
    in_order: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.in_order {
            self.stream.conn.send_close_notify();
            self.stream.flush().unwrap();
        }
    }
}

impl Read for Ending {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Ending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[test]
fn a_server_that_changes_its_keys_is_understood_and_answered() {
    let (setup, authority) = (Setup::new(), Authority::new("the CA"));
    let sender = setup.sender_to("bbq+tls://").tls_ca(authority.ca()).start().unwrap();
    let mut stream = accept(&setup, &authority.issue("127.0.0.1").server(ONLY_13, None));
    stream.conn.complete_io(&mut stream.sock).unwrap();
    let mut connection = Connection::over(KeyChanger(stream));
    connection.hello();
    connection.welcome(0);
    for number in 1..=100 {
        sender.send(&MESSAGE).unwrap();
        receive(&mut connection, number, number);
        connection.ack(number);
        acknowledged(&sender, number);
    }
    assert_eq!(sender.counters().reconnects, 0);
}

/// Changes its keys before each write, and asks the client to do the same.
struct KeyChanger(crate::TlsStream);

impl Read for KeyChanger {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for KeyChanger {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.conn.refresh_traffic_keys().unwrap();
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn a_sender_that_is_closed_ends_tls_in_order() {
    let (setup, authority) = (Setup::new(), Authority::new("the CA"));
    let sender = setup.sender_to("bbq+tls://").tls_ca(authority.ca()).start().unwrap();
    let server = authority.issue("127.0.0.1").server(BOTH, None);
    let mut connection = Connection::over(accept(&setup, &server));
    connection.hello();
    connection.welcome(0);
    sender.send(&MESSAGE).unwrap();
    receive(&mut connection, 1, 1);
    connection.ack(1);
    sender.close(PATIENCE).unwrap();
    // An end without a close_notify would be an error.
    assert_eq!(connection.rest().unwrap(), b"");
}
