//! If this fails, a request whose client was connected before a stop, reload or upgrade gets no response.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::client;
use crate::support::lineage::Lineage;
use crate::support::{PATIENCE, Setup, free_ports};

const CLIENTS: usize = 40;
/// A server waits longer for a request that is on its way; see `FIRST_BYTE_GRACE_DEFAULT` of bbq-listen.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// Stops until the requests of one were sent so soon behind it: a machine may be too busy for that.
const TRIES: usize = 50;

/// A sync that takes longer than a stop waits would end the connection without a response.
fn request(body: &str) -> String {
    format!("POST /?ack=received HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The head of the response that comes next, in small letters.
fn response(mut stream: impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|bytes| bytes == 1) {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("a head").to_lowercase();
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
    let length: u64 = length.map_or(0, |length| length.parse().expect("a length"));
    std::io::copy(&mut stream.take(length), &mut std::io::sink()).expect("a body");
    head
}

fn assert_answered(stream: impl Read, what: &str) -> String {
    let head = response(stream);
    assert!(head.starts_with("http/1.1 202 "), "{what}: {head:?}");
    head
}

fn connect(setup: &Setup) -> TcpStream {
    let stream = TcpStream::connect(setup.address(0)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Half of them had an answer before.
fn clients(setup: &Setup) -> Vec<TcpStream> {
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect(setup)).collect();
    for client in &mut clients[..CLIENTS / 2] {
        client.write_all(request("early").as_bytes()).expect("it reads");
        assert_answered(client, "the first request");
    }
    clients
}

/// Connects, stops the server, connects once more, and sends all requests; `None` if that took too long.
fn stop_and_send() -> Option<()> {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}?distribution=reuseport"]).with(&["--workers", "2"]);
    let server = setup.start();
    let mut clients = clients(&setup);
    server.wait_status("all are accepted", |status| {
        let workers = status["workers"].as_array().expect("workers");
        workers.iter().filter_map(|worker| worker["connections"].as_u64()).sum::<u64>() == CLIENTS as u64
    });
    let begun = Instant::now();
    server.signal(libc::SIGTERM);
    server.wait_log("stopping");
    // A client may connect while others are connected.
    let another = TcpStream::connect(setup.address(0));
    for client in clients
        .iter_mut()
        .chain(&mut another.as_ref().ok().map(|another| another.try_clone().expect("a socket")))
    {
        // A closed connection is found below.
        let _gone = client.write_all(request("late").as_bytes());
    }
    let in_time = begun.elapsed() < ON_ITS_WAY;
    if in_time {
        clients.push(another.expect("it listens, as others are connected"));
        for client in &clients {
            assert_answered(client, "a late request");
        }
    }
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    in_time.then_some(())
}

#[test]
fn requests_that_come_soon_after_a_stop_are_answered() {
    assert!((0..TRIES).any(|_| stop_and_send().is_some()), "the machine is too busy for this test");
}

/// A connection that stays open, with what was sent on it so far.
enum Client {
    /// Nothing, or answered requests.
    Silent(TcpStream),
    /// The first half of a request.
    Begun(TcpStream),
    Unix(UnixStream),
}

#[test]
fn connections_between_two_requests_go_on_through_reloads_and_upgrades() {
    // The head of a request may take as long as a machine is slow.
    let configuration =
        |number| format!("hello_timeout_seconds = 600\n[spool]\nflush_interval_ms = {}\n", 1 + number);
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}", "http+unix://{dir}/socket"]);
    let setup = setup.with(&["--workers", "2"]).config(&configuration(0));
    let mut server = Lineage::start(&setup);
    let (whole, socket) = (request("message"), setup.path().join("socket"));
    let (first, second) = whole.split_at(20);
    let mut clients: Vec<Client> = Vec::new();
    for number in 0..CLIENTS {
        let mut client = connect(&setup);
        if number % 2 == 0 {
            client.write_all(whole.as_bytes()).expect("it reads");
            assert_answered(&client, "the first request");
        }
        clients.push(match number % 4 {
            0 | 1 => Client::Silent(client),
            _ => {
                client.write_all(first.as_bytes()).expect("it reads");
                Client::Begun(client)
            }
        });
    }
    for _ in 0..2 {
        let client = UnixStream::connect(&socket).expect("it listens");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        clients.push(Client::Unix(client));
    }
    for round in 1..=4 {
        server.wait_status("all are accepted", |status| {
            let workers = status["workers"].as_array().expect("workers");
            let open = workers.iter().filter_map(|worker| worker["connections"].as_u64()).sum::<u64>();
            open == clients.len() as u64
        });
        if round % 2 == 0 {
            server.upgrade();
        } else {
            fs::write(setup.path().join("bbq.toml"), configuration(round)).expect("a configuration");
            server.reload();
        }
        for client in &mut clients {
            match client {
                Client::Silent(stream) => {
                    stream.write_all(whole.as_bytes()).expect("it reads");
                    assert_answered(&*stream, "a silent connection");
                }
                Client::Begun(stream) => {
                    stream.write_all(second.as_bytes()).expect("it reads");
                    let head = assert_answered(&*stream, "a connection in the middle of a head");
                    assert!(!head.contains("connection: close"), "{head}");
                    stream.write_all(first.as_bytes()).expect("it reads");
                }
                Client::Unix(stream) => {
                    stream.write_all(whole.as_bytes()).expect("it reads");
                    assert_answered(&*stream, "a unix connection");
                }
            }
        }
    }
    for client in &clients {
        if let Client::Silent(stream) | Client::Begun(stream) = client {
            stream.shutdown(Shutdown::Both).expect("it is open");
        }
    }
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let written = String::from_utf8(setup.written()).expect("as it was sent");
    assert_eq!(written.matches("message").count(), CLIENTS / 2 + 4 * (CLIENTS + 2));
}

/// Also if its listener gets or loses TLS.
#[test]
fn a_connection_stays_what_it_is() {
    let (mut setup, authority) = client::setup(&[]);
    // The last one is the admin's.
    setup.ports = free_ports(2);
    let setup = setup.with(&["--workers", "1", "--config", "{dir}/bbq.toml"]);
    let configure = |number: u32, options: &str| {
        let listener = setup.fill(&format!("http+tcp://127.0.0.1:{{0}}{options}"));
        let text = format!(
            "listen = [{listener:?}]\nhello_timeout_seconds = 600\n[spool]\nflush_interval_ms = {number}\n"
        );
        fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
    };
    let with_tls = format!("?{}", client::TLS);
    configure(1, "");
    let server = Lineage::start(&setup);
    let wait_connected = |connections: u64| {
        server.wait_status("all are accepted", |status| status["workers"][0]["connections"] == connections);
    };
    let mut plain = connect(&setup);
    plain.write_all(request("plain").as_bytes()).expect("it reads");
    assert_answered(&plain, "the first request");
    configure(2, &with_tls);
    server.reload();
    plain.write_all(request("plain").as_bytes()).expect("it reads");
    assert_answered(&plain, "a plain connection");
    let secret = client::Client::new(&authority);
    let silent = connect(&setup);
    wait_connected(2);
    configure(3, &with_tls);
    server.reload();
    let mut secret = secret.over(silent).expect("TLS");
    secret.write_all(request("secret").as_bytes()).expect("it reads");
    assert_answered(&mut secret, "a connection whose handshake came after a reload");
    let silent = connect(&setup);
    wait_connected(3);
    configure(4, "");
    server.reload();
    assert_eq!((&silent).read(&mut [0]).expect("the end"), 0, "its client waits for a handshake");
    plain.write_all(request("plain").as_bytes()).expect("it reads");
    assert_answered(&plain, "a plain connection");
    drop((plain, secret));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let written = String::from_utf8(setup.written()).expect("as it was sent");
    assert_eq!((written.matches("plain").count(), written.matches("secret").count()), (3, 1));
}
