//! If this fails, thousands of clients that send a byte a second, each in the middle of something, take the memory of the server, or
//! keep honest clients out.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::{TLS, setup};
use crate::support::client::{connect_from, source};
use crate::support::protocol::hello;
use crate::support::{PATIENCE, Server, process};

/// Of each listener; 5,000 in all.
const SLOW_CLIENTS: u32 = 1250;
/// What each listener's slow clients send, byte by byte, without an end.
const LISTENERS: [&str; 4] = ["http", "lines", "bbq", "http over TLS"];
/// What one may cost in resident memory: its task, hyper's buffer of 8 KiB, rustls.
const CONNECTION_BYTES_MAX: u64 = 24 * 1024;
/// Requests of an honest client, one after the other.
const REQUESTS: usize = 300;
/// Those in the middle of a head, a hello or a handshake are closed after this time.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two bytes of a slow client.
const PAUSE: Duration = Duration::from_secs(1);

/// The `number`-th byte of what a slow client of this listener sends.
fn byte(listener: usize, number: usize) -> u8 {
    let http = b"POST / HTTP/1.1\r\nhost: bbq\r\nx-slow: ";
    // A record of a handshake, TLS 1.0 as is usual, of 512 bytes.
    let tls = [22, 3, 1, 2, 0, 1, 0, 1, 252];
    match listener {
        0 => http.get(number).copied().unwrap_or(b'a'),
        2 => hello(7)[number.min(30)],
        3 => tls.get(number).copied().unwrap_or(3),
        _ => b'a',
    }
}

/// Posts one message after the other, each acknowledged when it is on disk. Returns how long each took, sorted.
fn post(to: SocketAddr) -> Vec<Duration> {
    let mut stream = connect_from(source(1), to);
    stream.set_nodelay(true).expect("a socket option");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut times: Vec<Duration> = (0..REQUESTS)
        .map(|_| {
            let start = Instant::now();
            stream
                .write_all(b"POST / HTTP/1.1\r\nhost: bbq\r\ncontent-length: 6\r\n\r\nhonest")
                .expect("it reads");
            let mut response = [0; 4096];
            let length = stream.read(&mut response).expect("a response");
            assert!(response[..length].starts_with(b"HTTP/1.1 200"), "{response:?}");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

fn open_connections(server: &Server<'_>) -> u64 {
    let status = server.status();
    let workers = status["workers"].as_array().expect("workers").iter();
    workers.map(|worker| worker["connections"].as_u64().expect("connections")).sum()
}

#[test]
fn slow_clients_cost_little_and_hold_nobody_up() {
    process::need_descriptors(2 * u64::from(SLOW_CLIENTS) * LISTENERS.len() as u64 + 500);
    let tls = format!("http+tcp://127.0.0.1:{{3}}?{TLS}");
    let listen = ["http+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}", "bbq+tcp://127.0.0.1:{2}", &tls];
    let (setup, _authority) = setup(&listen);
    let timeout = format!("hello_timeout_seconds = {}\n", HELLO_TIMEOUT.as_secs());
    let setup = setup.config(&timeout).with(&["--workers", "2"]);
    let server = setup.start();
    let quiet = post(setup.address(0));
    let before = process::resident_kib(server.pid());
    let mut slow: Vec<(usize, TcpStream)> = (0..SLOW_CLIENTS)
        .flat_map(|number| (0..LISTENERS.len()).map(move |listener| (number, listener)))
        .map(|(number, listener)| (listener, connect_from(source(2 + number), setup.address(listener))))
        .collect();
    let count = slow.len() as u64;
    let (is_over, all) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                let next = Instant::now() + PAUSE;
                for (listener, stream) in &mut slow {
                    // Those that the server has closed are counted below.
                    let _written = stream.write_all(&[byte(*listener, number)]);
                }
                number += 1;
                all.store(number > 1, Ordering::Relaxed);
                while Instant::now() < next && !is_over.load(Ordering::Relaxed) {
                    std::thread::park_timeout(next.saturating_duration_since(Instant::now()).min(PAUSE / 20));
                }
            }
        });
        let over = Over(&is_over);
        server.wait_status("all slow clients", |_| {
            all.load(Ordering::Relaxed) && open_connections(&server) >= count
        });
        let busy = post(setup.address(0));
        let each = (process::resident_kib(server.pid()).saturating_sub(before)) * 1024 / count;
        let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
        println!(
            "{count} slow clients: {each} bytes each; p99 of a durable POST {:?}, without them {:?}",
            p99(&busy),
            p99(&quiet)
        );
        assert!(each <= CONNECTION_BYTES_MAX, "{each} bytes each");
        // Of text nobody says how long a message may take; the others had their time.
        server.wait_status("the end of those that took too long", |_| {
            open_connections(&server) <= u64::from(SLOW_CLIENTS)
        });
        drop(over);
    });
    server.wait_delivered(2 * REQUESTS as u64);
    drop(slow);
    server.wait_status("the end of all", |_| open_connections(&server) == 0);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Ends the other thread also when an assertion fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
