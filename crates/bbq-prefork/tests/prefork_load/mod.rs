//! Clients that ask a `prefork` without a pause and look at every byte of what comes: one connection per request, and
//! connections that stay, with several requests at once and requests in pieces.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

const CLIENTS: u8 = 8;
/// Exchanges of a connection that stays, and requests of an exchange.
const EXCHANGES_MAX: u64 = 20;
const REQUESTS_MAX: u64 = 4;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

const LAST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const MORE: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// What the clients have seen.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) answers: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// What was not as it should be, in words.
    pub(crate) losses: Mutex<Vec<String>>,
    ended: AtomicBool,
}

impl Load {
    /// Runs all clients while `f` does what it does.
    pub(crate) fn during(&self, address: SocketAddr, seed: u64, f: impl FnOnce()) {
        std::thread::scope(|threads| {
            for client in 0..CLIENTS {
                threads.spawn(move || self.client(address, client, seed));
            }
            // Also when it fails: the clients would never end.
            let _end = End(&self.ended);
            f();
        });
    }

    fn client(&self, address: SocketAddr, client: u8, seed: u64) {
        let mut random = Random::new(seed + u64::from(client) + 1);
        while !self.ended.load(Relaxed) {
            let stays = random.below(2) == 0;
            if let Err(problem) = self.connection(address, client, stays, &mut random) {
                let kind = if stays { "a connection that stays" } else { "a connection per request" };
                self.losses.lock().unwrap().push(format!("{kind}: {problem}"));
            }
        }
    }

    fn connection(
        &self,
        address: SocketAddr,
        client: u8,
        stays: bool,
        random: &mut Random,
    ) -> Result<(), String> {
        let stream = connect(address, client).map_err(|error| format!("refused: {error}"))?;
        self.connections.fetch_add(1, Relaxed);
        let mut peer = Peer { stream, received: Vec::new() };
        if stays {
            for _ in 0..=random.below(EXCHANGES_MAX) {
                let requests = 1 + random.below(REQUESTS_MAX) as usize;
                let all = MORE.repeat(requests);
                // Some come in two pieces, of which the first may end within a request.
                let cut = if random.below(4) == 0 { 1 + random.below(all.len() as u64 - 1) } else { 0 };
                let (first, rest) = all.as_bytes().split_at(cut as usize);
                peer.send(first)?;
                peer.send(rest)?;
                for _ in 0..requests {
                    peer.answer()?;
                    self.answers.fetch_add(1, Relaxed);
                }
            }
            peer.stream.shutdown(Shutdown::Write).map_err(|error| format!("reset: {error}"))?;
        } else {
            peer.send(LAST.as_bytes())?;
            peer.answer()?;
            self.answers.fetch_add(1, Relaxed);
        }
        peer.end()
    }
}

/// Every client from an address of its own: ports last longer.
fn connect(address: SocketAddr, client: u8) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 1, client), 0)).into())?;
    socket.connect(&address.into())?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}

/// A connection, and what came on it beyond the last answer.
struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Peer {
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("reset: {error}"))
    }

    /// Answers whether there was more.
    fn receive(&mut self) -> Result<bool, String> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(length) => {
                    self.received.extend_from_slice(&buffer[..length]);
                    return Ok(length > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(format!("reset: {error}"));
                }
                Err(error) => return Err(format!("unanswered: {error}")),
            }
        }
    }

    /// Takes one whole answer.
    fn answer(&mut self) -> Result<(), String> {
        loop {
            if let Some(length) = whole_answer(&self.received)? {
                self.received.drain(..length);
                return Ok(());
            }
            if !self.receive()? {
                return Err(format!(
                    "unanswered: it ended after {:?}",
                    String::from_utf8_lossy(&self.received)
                ));
            }
        }
    }

    /// Nothing may come but the end.
    fn end(&mut self) -> Result<(), String> {
        while self.receive()? {}
        if self.received.is_empty() {
            return Ok(());
        }
        Err(format!("doubled: {:?}", String::from_utf8_lossy(&self.received)))
    }
}

/// Bytes of the answer that `received` begins with, if it is whole.
fn whole_answer(received: &[u8]) -> Result<Option<usize>, String> {
    let text = String::from_utf8_lossy(received);
    let torn = || format!("torn: {text:?}");
    let begin = "HTTP/1.1 200 OK\r\nDate: ";
    if !text.starts_with(&begin[..begin.len().min(text.len())]) {
        return Err(torn());
    }
    let Some((head, page)) = text.split_once("\r\n\r\n") else { return Ok(None) };
    let length = head.split("Content-Length: ").nth(1).ok_or_else(torn)?;
    let length: usize = length.lines().next().and_then(|digits| digits.parse().ok()).ok_or_else(torn)?;
    let Some(page) = page.get(..length) else { return Ok(None) };
    let pid = page.strip_prefix("process ").and_then(|page| page.strip_suffix('\n'));
    if pid.is_none_or(|pid| pid.parse::<u32>().is_err()) {
        return Err(torn());
    }
    Ok(Some(head.len() + 4 + length))
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % bound
    }
}
