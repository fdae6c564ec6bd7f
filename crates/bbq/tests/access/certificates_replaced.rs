//! If this fails, a new certificate cuts connections, is not served, or one that cannot be used takes the place of one that can.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::authority::Authority;
use crate::client::{Client, TLS, end, setup, shown};
use crate::support::Server;

const CLIENTS: u64 = 2;
const CHANGES: u64 = 20;

/// Waits until new connections get a certificate.
fn serves(client: &Client, server: &Server<'_>, der: &[u8], what: &str) {
    let start = std::time::Instant::now();
    loop {
        let stream = client.connect(server.setup.address(0)).expect("TLS");
        let is_new = shown(&stream) == der;
        end(stream).expect("in order");
        if is_new {
            return;
        }
        assert!(start.elapsed() < crate::support::PATIENCE, "{what} is not served\n{}", server.setup.log());
    }
}

#[test]
fn no_connection_is_lost_while_certificates_are_replaced() {
    let (setup, authority) = setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{TLS}")]);
    let server = setup.start();
    let (sent, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let client = Client::new(&authority);
    thread::scope(|scope| {
        let _killed = server.killed_if_this_fails();
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let number = sent.fetch_add(1, Ordering::AcqRel);
                    let answered = client.send(setup.address(0), format!("line {number}\n").as_bytes());
                    answered.unwrap_or_else(|error| panic!("line {number}: {error}"));
                }
            });
        }
        // One that lasts, and has the first certificate to the end.
        let lasting = client.connect(setup.address(0)).expect("TLS");
        for change in 0..CHANGES {
            let pair = authority.sign("localhost");
            pair.write(setup.path(), "server");
            // Half of them are found by their files alone; those take seconds.
            let is_told = change % 10 != 9;
            if is_told {
                server.signal(libc::SIGHUP);
            }
            serves(&client, &server, &pair.der, if is_told { "SIGHUP" } else { "a new file" });
        }
        end(lasting).expect("in order");
        done.store(true, Ordering::Release);
    });
    server.wait_delivered(sent.load(Ordering::Acquire));
    assert_eq!(server.status()["listeners"][0]["tls"]["failed"], 0);
    let count = u32::try_from(sent.load(Ordering::Acquire)).expect("not so many");
    crate::support::client::assert_numbered_lines(&setup.written(), 0..count);
}

#[test]
fn a_certificate_that_cannot_be_used_is_not_served() {
    let (setup, authority) = setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{TLS}")]);
    let server = setup.start();
    let client = Client::new(&authority);
    let before = shown(&client.connect(setup.address(0)).expect("TLS"));
    fs::write(setup.path().join("server-cert.pem"), "garbage").expect("a file");
    server.signal(libc::SIGHUP);
    server.wait_log("refused; the server continues as before");
    server.wait_log("the new certificate cannot be used");
    let (code, text) = server.health();
    assert!(code != 200 && text.contains("serves the old certificate"), "{code} {text}");
    assert_eq!(shown(&client.connect(setup.address(0)).expect("TLS")), before);
    let pair = authority.sign("localhost");
    pair.write(setup.path(), "server");
    serves(&client, &server, &pair.der, "the one behind it");
    assert!(!server.health().1.contains("old certificate"));
    assert_eq!(setup.log().matches("the new certificate cannot be used").count(), 1);
}

#[test]
fn a_client_gets_the_certificate_with_the_name_that_it_asks_for() {
    let listen = "lines+tcp://127.0.0.1:{0}?tls_cert={dir}/server-cert.pem,{dir}/other-cert.pem\
                  &tls_key={dir}/server-key.pem,{dir}/other-key.pem";
    let (setup, authority) = setup(&[listen]);
    authority.sign("other.example").write(setup.path(), "other");
    let server = setup.start();
    let client = Client::new(&authority);
    for name in ["localhost", "other.example"] {
        client.asking_for(name).connect(setup.address(0)).expect(name);
    }
    // Nobody has the name: the first.
    let error = client.asking_for("third.example").connect(setup.address(0)).expect_err("another name");
    assert!(error.to_string().contains("localhost"), "{error}");
    drop(server);
    let _unused = Authority::new("so that the type is named");
}

/// In a session that goes on, the client shows no certificate: one that has expired meanwhile would be let in.
#[test]
fn no_session_goes_on_in_another_connection() {
    let (setup, authority) =
        setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{TLS}&tls_client_ca={{dir}}/ca.pem")]);
    let server = setup.start();
    let own = authority.sign("till-4");
    for client in [Client::with(&authority, Some(&own)), Client::with_tls12(&authority, Some(&own))] {
        for _ in 0..3 {
            let stream = client.connect(setup.address(0)).expect("TLS");
            assert_ne!(stream.conn.handshake_kind(), Some(rustls::HandshakeKind::Resumed));
            end(stream).expect("in order");
        }
    }
    assert_eq!(server.stop(), Some(0));
}
