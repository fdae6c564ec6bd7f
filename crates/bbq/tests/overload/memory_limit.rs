//! If this fails, the kernel kills a server in a control group of usual size as soon as its clients send as they can, and leave messages
//! unfinished.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bbq_wire::session::AckLevel;

use crate::support::control_group::ControlGroup;
use crate::support::session::{Answer, Session, batch, hello_at, stream_id};
use crate::support::{Setup, pause, process};

const MIB: u64 = 1024 * 1024;
/// How long the load lasts for each size. Without budgets, 256 MiB were full after 2 seconds and 512 MiB after 11.
const LOAD: Duration = Duration::from_secs(12);
/// Clients that leave a message unfinished, by protocol.
const LINES: usize = 800;
const BODIES: usize = 100;
const BATCHES: u8 = 50;
/// What each of them sends of it.
const UNFINISHED_BYTES: usize = 900_000;

/// A client that goes on with its message as far as the server takes it, and begins again when it is closed.
struct Holder {
    address: SocketAddr,
    first: Vec<u8>,
    rest: Vec<u8>,
    connection: Option<(TcpStream, usize)>,
}

impl Holder {
    fn new(address: SocketAddr, first: Vec<u8>, rest: Vec<u8>) -> Holder {
        Holder { address, first, rest, connection: None }
    }

    fn go_on(&mut self) {
        let Some((stream, sent)) = &mut self.connection else {
            let Ok(mut stream) = TcpStream::connect(self.address) else { return };
            // The kernel has room for the first bytes.
            if stream.write_all(&self.first).is_ok() && stream.set_nonblocking(true).is_ok() {
                self.connection = Some((stream, 0));
            }
            return;
        };
        let end = self.rest.len().min(*sent + 64 * 1024);
        match stream.write(&self.rest[*sent..end]) {
            Ok(bytes) => *sent += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.connection = None,
        }
    }
}

fn holders(setup: &Setup) -> Vec<Holder> {
    let text = vec![b'x'; UNFINISHED_BYTES];
    let mut all: Vec<Holder> =
        (0..LINES).map(|_| Holder::new(setup.address(0), b"x".to_vec(), text.clone())).collect();
    let head = b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n";
    all.extend((0..BODIES).map(|_| Holder::new(setup.address(1), head.to_vec(), text.clone())));
    all.extend((0..BATCHES).map(|number| {
        let id = stream_id(number + 100);
        let mut unfinished = batch(id, 1, &vec![vec![b'x'; 1_000_000]; 4]);
        unfinished.pop();
        Holder::new(setup.address(2), hello_at(id, AckLevel::Durable), unfinished)
    }));
    all
}

/// Sends lines as fast as they are taken, until the end.
fn flood_lines(address: SocketAddr, end: Instant) {
    let block = [&[b'y'; 199][..], b"\n"].concat().repeat(1000);
    while Instant::now() < end {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _timeout = stream.set_write_timeout(Some(Duration::from_secs(1)));
        while Instant::now() < end && stream.write_all(&block).is_ok() {}
    }
}

/// Sends batches, each when the one before is acknowledged.
fn flood_batches(address: SocketAddr, number: u8, end: Instant, acknowledged: &AtomicU64) {
    let id = stream_id(number);
    let messages = vec![vec![b'z'; 1000]; 250];
    while Instant::now() < end {
        let mut session = Session::connect(address);
        session.write(&hello_at(id, AckLevel::Durable));
        let Answer::Welcome(welcome) = session.next() else { continue };
        let mut last = welcome.last_sequence;
        while Instant::now() < end {
            session.write(&batch(id, last + 1, &messages));
            match session.next() {
                Answer::Ack(sequence) => last = sequence,
                _ => break,
            }
            acknowledged.fetch_max(last, Ordering::Relaxed);
        }
    }
}

/// Sends requests of many lines, each when the one before is answered.
fn flood_requests(address: SocketAddr, end: Instant, answered: &AtomicU64) {
    let body = [&[b'h'; 999][..], b"\n"].concat().repeat(200);
    let head = format!("POST /ndjson HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut response = [0; 4096];
    while Instant::now() < end {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _timeout = stream.set_read_timeout(Some(Duration::from_secs(5)));
        while Instant::now() < end
            && stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_ok()
        {
            match stream.read(&mut response) {
                Ok(1..) if response.starts_with(b"HTTP/1.1 200") => answered.fetch_add(1, Ordering::Relaxed),
                Ok(1..) => continue,
                _ => break,
            };
        }
    }
}

fn survives(mib: u64) {
    process::need_descriptors(3000);
    let Some(group) = ControlGroup::with_memory(mib * MIB) else { return };
    let prefix = group.prefix();
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}", "http+tcp://127.0.0.1:{1}", "bbq+tcp://127.0.0.1:{2}"])
            .prefix(&prefix);
    let mut server = setup.start();
    let status = server.status();
    assert_eq!(status["memory"]["limit_bytes"], mib * MIB, "{:#}", status["memory"]);
    assert!(setup.log().contains("memory is planned"), "{}", setup.log());
    let end = Instant::now() + LOAD;
    let (acknowledged, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _guard = server.killed_if_this_fails();
        for _ in 0..2 {
            scope.spawn(|| flood_lines(setup.address(0), end));
        }
        scope.spawn(|| flood_batches(setup.address(2), 1, end, &acknowledged));
        scope.spawn(|| flood_requests(setup.address(1), end, &answered));
        // They have connections before the others take all.
        while acknowledged.load(Ordering::Relaxed) == 0 || answered.load(Ordering::Relaxed) == 0 {
            assert!(Instant::now() < end, "{}", setup.log());
            pause();
        }
        let mut holders = holders(&setup);
        while Instant::now() < end {
            for holder in &mut holders {
                holder.go_on();
            }
            pause();
        }
    });
    println!(
        "{mib} MiB: at most {} MiB, {} records acknowledged, {} requests answered",
        group.peak_mib(),
        acknowledged.load(Ordering::Relaxed),
        answered.load(Ordering::Relaxed)
    );
    assert!(server.child.try_wait().expect("it was ours").is_none(), "it has ended\n{}", setup.log());
    assert_eq!(group.killed(), 0);
    assert!(acknowledged.load(Ordering::Relaxed) > 0 && answered.load(Ordering::Relaxed) > 0);
    server.kill();
}

#[test]
fn defaults_survive_in_64_mib() {
    survives(64);
}

#[test]
fn defaults_survive_in_128_mib() {
    survives(128);
}

#[test]
fn defaults_survive_in_256_mib() {
    survives(256);
}

#[test]
fn defaults_survive_in_512_mib() {
    survives(512);
}

#[test]
fn what_is_configured_and_does_not_fit_is_told() {
    let Some(group) = ControlGroup::with_memory(256 * MIB) else { return };
    let prefix = group.prefix();
    let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"])
        .config("unfinished_bytes_max = \"512MiB\"\n")
        .prefix(&prefix);
    let server = setup.start();
    for part in
        ["unfinished batches and messages 512.00 MiB", "70 % of 256.00 MiB", "lower unfinished_bytes_max"]
    {
        assert!(setup.log().contains(part), "{part}\n{}", setup.log());
    }
    let status = server.status();
    assert!(status["warnings"][0].as_str().is_some_and(|text| text.contains("512.00 MiB")), "{status:#}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
