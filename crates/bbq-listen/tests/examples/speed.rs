//! How fast the examples are beside the same servers on tokio's listeners, in turns. It only fails if one of them does not answer:
//!
//!     cargo build --release -p bbq-listen --examples
//!     cargo test --release -p bbq-listen --test examples speed -- --ignored --nocapture
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quinn::{ClientConfig, Endpoint};
use tokio_rustls::rustls::RootCertStore;

use crate::acceptance::exchange::GRPC;
use crate::example::{ANSWER_TIMEOUT, Example, command};
use crate::quic::ask;
use crate::tls::Identity;

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_secs(1);
const CONNECTIONS: usize = 32;
/// The clock tick of /proc/PID/stat (`CLK_TCK`).
const TICK: Duration = Duration::from_millis(10);

/// How long each request of a round took, and the processor time of the server.
struct Round {
    waits: Vec<Duration>,
    processor: Duration,
}

impl Round {
    fn of(server: &Example, load: impl FnOnce() -> Vec<Duration>) -> Self {
        let before = processor_time(server);
        let mut waits = load();
        waits.sort_unstable();
        assert!(!waits.is_empty(), "nothing was answered");
        Self { waits, processor: processor_time(server).saturating_sub(before) }
    }

    /// Thousands a second, p99 in ms, processor time of a request in us.
    fn figures(&self) -> [f64; 3] {
        let requests = self.waits.len() as f64;
        let p99 = self.waits[(self.waits.len() - 1) * 99 / 100];
        [
            requests / TIME.as_secs_f64() / 1e3,
            p99.as_secs_f64() * 1e3,
            self.processor.as_secs_f64() * 1e6 / requests,
        ]
    }
}

#[test]
#[ignore = "it measures; see the head of the file"]
fn before_and_after() {
    let identity = Identity::new();
    let named = |name: &str| Example::spawn(command(name).arg("127.0.0.1:0"));
    let before = |kind: &str| Example::spawn(command("before").args([kind, "127.0.0.1:0"]));
    in_turns("hyper", || before("hyper"), || named("hyper_http"), by_http);
    in_turns("axum", || named("axum_before"), || named("axum_after"), by_http);
    in_turns("tonic", || before("tonic"), || named("tonic_hello"), by_grpc);
    in_turns("udp", || before("udp"), || named("udp_echo"), by_datagrams);
    let quic = || Example::spawn(identity.with_files(command("before").args(["quic", "127.0.0.1:0"])));
    in_turns("quic", quic, || identity.spawn("quic_worker"), |to| by_quic(to, &identity));
}

fn in_turns(
    what: &str,
    before: impl Fn() -> Example,
    after: impl Fn() -> Example,
    load: impl Fn(SocketAddr) -> Vec<Duration>,
) {
    let starts: [&dyn Fn() -> Example; 2] = [&before, &after];
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (start, rounds) in starts.iter().zip(&mut rounds) {
            let server = start();
            rounds.push(Round::of(&server, || load(server.address)).figures());
        }
    }
    let ratios: Vec<[f64; 3]> =
        rounds[0].iter().zip(&rounds[1]).map(|(b, a)| [0, 1, 2].map(|i| a[i] / b[i])).collect();
    for (name, figures) in [("before", &rounds[0]), ("after", &rounds[1]), ("ratio", &ratios)] {
        let [rate, p99, processor] =
            [0, 1, 2].map(|index| spread(figures.iter().map(|figures| figures[index])));
        println!("{what}, {name}: {rate} k/s, p99 {p99} ms, {processor} us of processor time");
    }
}

/// The median, with the least and the most.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    format!("{:.2} ({:.2}-{:.2})", values[values.len() / 2], values[0], values[values.len() - 1])
}

/// Runs so many clients, each on a thread of its own. Each call of what `connect` returns is one request.
fn by_threads<Ask: FnMut()>(connect: impl Fn() -> Ask + Sync) -> Vec<Duration> {
    let client = || {
        let mut ask = connect();
        let (began, mut waits) = (Instant::now(), Vec::new());
        while began.elapsed() < TIME {
            let since = Instant::now();
            ask();
            waits.push(since.elapsed());
        }
        waits
    };
    thread::scope(|threads| {
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| threads.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

fn by_http(to: SocketAddr) -> Vec<Duration> {
    by_threads(|| {
        let mut peer = Peer::connect(to);
        move || peer.ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\n\r\nOK")
    })
}

fn by_grpc(to: SocketAddr) -> Vec<Duration> {
    // Behind the preface and the settings: the frame of the head, and that of the message.
    let (preface, request) = GRPC.request.split_at(24 + 9);
    let message = request.len() - 9 - 5;
    by_threads(|| {
        let (mut peer, mut stream, mut next) = (Peer::connect(to), 1_u32, request.to_vec());
        peer.stream.write_all(preface).unwrap();
        // The window of the connection grows by what each answer takes.
        next.extend_from_slice(b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x07");
        move || {
            next[5..9].copy_from_slice(&stream.to_be_bytes());
            next[message + 5..message + 9].copy_from_slice(&stream.to_be_bytes());
            stream += 2;
            peer.ask(&next, GRPC.answer);
        }
    })
}

fn by_datagrams(to: SocketAddr) -> Vec<Duration> {
    by_threads(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        move || {
            socket.send(&[b'x'; 64]).unwrap();
            assert_eq!(socket.recv(&mut [0; 128]).unwrap(), 64);
        }
    })
}

/// A stream for each request.
fn by_quic(to: SocketAddr, identity: &Identity) -> Vec<Duration> {
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.der().clone()).unwrap();
    let config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = |config: ClientConfig| async move {
            let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
            let connection = endpoint.connect_with(config, to, "localhost").unwrap().await.unwrap();
            let (began, mut waits) = (Instant::now(), Vec::new());
            while began.elapsed() < TIME {
                let since = Instant::now();
                ask(&connection).await;
                waits.push(since.elapsed());
            }
            waits
        };
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(client(config.clone()))).collect();
        let mut waits = Vec::new();
        for client in clients {
            waits.extend(client.await.unwrap());
        }
        waits
    })
}

/// A connection that stays open.
struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Peer {
    fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Sends a request, and reads until an answer with this end has come.
    fn ask(&mut self, request: &[u8], end: &[u8]) {
        self.stream.write_all(request).unwrap();
        let mut buffer = [0; 4096];
        loop {
            if let Some(place) = self.received.windows(end.len()).position(|bytes| bytes == end) {
                self.received.drain(..place + end.len());
                return;
            }
            let length = self.stream.read(&mut buffer).unwrap();
            assert!(length > 0, "it hung up after {:?}", String::from_utf8_lossy(&self.received));
            self.received.extend_from_slice(&buffer[..length]);
        }
    }
}

/// User and system time of a process, proc(5).
fn processor_time(server: &Example) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid.as_raw_nonzero())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    TICK * (fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap())
}
