//! Clients that connect without a pause, a message for each connection, and count what goes wrong.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::PATIENCE;

/// The number of clients.
pub const CLIENTS: u64 = 8;

/// The outcomes of the connections of all clients.
#[derive(Debug, Default)]
pub struct Outcome {
    pub answered: AtomicU64,
    pub refused: AtomicU64,
    pub reset: AtomicU64,
    pub unanswered: AtomicU64,
    /// By client: messages that were answered.
    pub sent: [AtomicU64; CLIENTS as usize],
    stop: AtomicBool,
}

impl Outcome {
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }

    /// Waits for more traffic, so that something happened between two changes.
    pub fn wait_more(&self, connections: u64) {
        let (wanted, start) = (self.answered() + connections, std::time::Instant::now());
        while self.answered() < wanted {
            assert!(start.elapsed() < PATIENCE, "nobody is answered any more: {self:?}");
            std::thread::yield_now();
        }
    }

    pub fn lost(&self) -> u64 {
        [&self.refused, &self.reset, &self.unanswered].map(|count| count.load(Ordering::Acquire)).iter().sum()
    }

    /// Connects, once for each message, until it is stopped.
    fn client(&self, address: SocketAddr, number: u64) {
        let sent = &self.sent[number as usize];
        while !self.stop.load(Ordering::Acquire) {
            let message = message(number, sent.load(Ordering::Relaxed));
            let count = match exchange(address, message.as_bytes()) {
                Ok(()) => {
                    sent.fetch_add(1, Ordering::Relaxed);
                    &self.answered
                }
                // This machine has no port left for a client: the connection reached no server.
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => &self.refused,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    &self.unanswered
                }
                // Reset, or a broken pipe, which is a reset seen a moment later.
                Err(_) => &self.reset,
            };
            count.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Stops the clients, also when the test fails: its scope would wait for them for ever.
struct Stopping<'a>(&'a Outcome);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Release);
    }
}

pub fn message(client: u64, number: u64) -> String {
    format!("client {client} message {number}")
}

/// Sends a message on a connection of its own. The message is answered if the other side ends the connection in order.
fn exchange(address: SocketAddr, message: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(message)?;
    stream.shutdown(Shutdown::Write)?;
    loop {
        match stream.read(&mut [0; 16]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Runs `body` while clients connect; returns when the last connection has ended.
pub fn while_connecting(address: SocketAddr, body: impl FnOnce(&Outcome)) -> Outcome {
    let outcome = Outcome::default();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let outcome = &outcome;
            scope.spawn(move || outcome.client(address, number));
        }
        let _stopping = Stopping(&outcome);
        outcome.wait_more(100);
        body(&outcome);
    });
    outcome
}

/// Checks that every answered message is there once, and no others except those on their way at the end.
pub fn assert_each_once(written: &[u8], outcome: &Outcome) {
    let text = std::str::from_utf8(written).expect("as it was sent");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = Vec::new();
    for client in 0..CLIENTS {
        let sent = outcome.sent[client as usize].load(Ordering::Acquire);
        expected.extend((0..sent).map(|number| message(client, number)));
    }
    expected.sort_unstable();
    let missing = expected.iter().filter(|line| lines.binary_search(&line.as_str()).is_err()).count();
    assert_eq!((missing, lines.len()), (0, expected.len()), "missing, written");
}
