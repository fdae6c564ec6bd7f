//! If this fails, what comes through TLS is lost, changed or doubled, or a client waits for what was decrypted and not handled.

use std::io::{Read as _, Write as _};

use crate::client::{Client, TLS, end, setup};
use crate::support::assert_balanced;
use crate::support::client::assert_numbered_lines;
use crate::support::protocol::{batch, hello, receive};

const ACK: u8 = 3;

#[test]
fn pieces_of_any_size_come_out_as_they_were_sent() {
    let listen = format!("lines+tcp://127.0.0.1:{{0}}?{TLS}&message_bytes_max=2MiB");
    let (setup, authority) = setup(&[&listen]);
    let server = setup.start();
    let client = Client::new(&authority);
    let mut stream = client.connect(setup.address(0)).expect("TLS");
    let text = "a line in many records\nand the next one\n";
    for byte in text.as_bytes() {
        // A record each.
        stream.write_all(&[*byte]).expect("it reads");
        stream.flush().expect("it reads");
    }
    let large = "x".repeat(1 << 20);
    stream.write_all(format!("{large}\n").as_bytes()).expect("it reads");
    // Cut in the middle of a record on the wire.
    stream.conn.writer().write_all(b"cut on the wire\n").expect("room");
    let mut wire = Vec::new();
    stream.conn.write_tls(&mut wire).expect("memory");
    for byte in wire {
        stream.sock.write_all(&[byte]).expect("it reads");
    }
    // Without a line feed, but in order.
    stream.write_all(b"the last").expect("it reads");
    end(stream).expect("the server ends in order, too");
    let status = server.wait_delivered(4);
    assert_eq!(status["ledger"]["dropped"]["incomplete"], 1, "{status:#}");
    assert_eq!(status["listeners"][0]["tls"]["handshakes"], 1, "{status:#}");
    let expected = format!("{text}{large}\ncut on the wire\n");
    assert!(String::from_utf8(setup.written()).expect("as it was sent") == expected);
}

/// An end without a close_notify may have been made by anybody: a whole message may be a part of one.
#[test]
fn a_message_whose_end_is_not_confirmed_is_incomplete() {
    let (setup, authority) = setup(&[&format!("whole+tcp://127.0.0.1:{{0}}?{TLS}")]);
    let server = setup.start();
    let client = Client::new(&authority);
    client.send(setup.address(0), b"whole").expect("TLS");
    let mut cut = client.connect(setup.address(0)).expect("TLS");
    cut.write_all(b"cut").expect("it reads");
    drop(cut);
    let status = server.wait_status("both", |status| status["ledger"]["received"] == 2);
    assert_eq!(status["ledger"]["dropped"]["incomplete"], 1, "{status:#}");
    server.wait_status("delivery", |status| status["ledger"]["delivered"] == 1);
    assert_eq!(setup.written(), b"whole\n");
}

/// The server is killed in the middle; its client sends again what was not acknowledged.
#[test]
fn a_session_that_is_cut_by_a_kill_goes_on_without_loss_or_doubles() {
    const BATCHES: u64 = 200;
    let (setup, authority) = setup(&[&format!("bbq+tcp://127.0.0.1:{{0}}?{TLS}")]);
    let client = Client::new(&authority);
    let (mut next, mut kills) = (1, 0);
    let mut server = setup.start();
    while next <= BATCHES {
        let mut stream = client.connect(setup.address(0)).expect("TLS");
        stream.write_all(&hello(7)).expect("it reads");
        let (_, welcome) = receive(&mut stream);
        next = u64::from_le_bytes(welcome[..8].try_into().expect("eight bytes")) + 1;
        // Some are on their way when it is killed.
        let kill_at = next + 40;
        while next <= BATCHES {
            let line = format!("line {}", next - 1);
            stream.write_all(&batch(7, next, &[line.as_bytes()])).expect("it reads");
            if next == kill_at && kills < 3 {
                server.kill();
                kills += 1;
                server = setup.start();
                break;
            }
            next += 1;
        }
        if next > BATCHES {
            let mut acknowledged = 0;
            while acknowledged < BATCHES {
                let (kind, ack) = receive(&mut stream);
                assert_eq!(kind, ACK, "{ack:?}");
                acknowledged = u64::from_le_bytes(ack[..8].try_into().expect("eight bytes"));
            }
        }
    }
    assert_eq!(kills, 3);
    let status = server.wait_status("delivery", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_numbered_lines(&setup.written(), 0..BATCHES as u32);
}

/// A session becomes quiet, and wakes up.
#[test]
fn a_quiet_session_goes_on_where_it_was() {
    let (setup, authority) = setup(&[&format!("bbq+tcp://127.0.0.1:{{0}}?{TLS}")]);
    let server = setup.start();
    let mut stream = Client::new(&authority).connect(setup.address(0)).expect("TLS");
    stream.write_all(&hello(7)).expect("it reads");
    receive(&mut stream);
    for sequence in 1..=2 {
        stream.write_all(&batch(7, sequence, &[b"message"])).expect("it reads");
        assert_eq!(receive(&mut stream).0, ACK);
        server.wait_status("quiet", |status| {
            let workers = status["workers"].as_array().expect("workers");
            workers.iter().all(|worker| worker["sessions_active"] == 0)
                && workers.iter().any(|worker| worker["sessions"] == 1)
        });
    }
    // A refusal comes through, too, and then the end.
    server.signal(libc::SIGTERM);
    let mut rest = Vec::new();
    let _ended = stream.read_to_end(&mut rest);
    assert!(String::from_utf8_lossy(&rest).contains("the server is stopping"), "{rest:?}");
}

/// The server does not change: its connections stay, whatever else does.
#[test]
fn a_reload_that_restarts_the_workers_keeps_connections() {
    let listen = format!("listen = [\"lines+tcp://127.0.0.1:{{0}}?{TLS}\"]\n");
    let (mut setup, authority) = setup(&[]);
    setup.ports = crate::support::free_ports(2);
    let text = setup.fill(&listen);
    let setup = setup.config(&text);
    let server = setup.start();
    let mut stream = Client::new(&authority).connect(setup.address(0)).expect("TLS");
    stream.write_all(b"half a li").expect("it reads");
    std::fs::write(setup.path().join("bbq.toml"), format!("{text}batch_timeout_seconds = 77\n"))
        .expect("a file");
    server.signal(libc::SIGHUP);
    server.wait_log("reloaded");
    stream.write_all(b"ne\n").expect("it reads");
    end(stream).expect("the server ends in order, too");
    server.wait_delivered(1);
    assert_eq!(setup.written(), b"half a line\n");
}

/// Nothing on the socket tells of these ends again.
#[test]
fn an_end_inside_tls_is_handled_while_the_socket_stays_open() {
    let (setup, authority) = setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{TLS}")]);
    let server = setup.start();
    let client = Client::new(&authority);
    let mut open = client.connect(setup.address(0)).expect("TLS");
    open.write_all(b"whole\nhalf").expect("it reads");
    open.conn.send_close_notify();
    open.flush().expect("it reads");
    let closed = |status: &serde_json::Value| {
        status["workers"].as_array().expect("workers").iter().all(|worker| worker["connections"] == 0)
    };
    server.wait_status("the end", |status| status["ledger"]["dropped"]["incomplete"] == 1 && closed(status));
    // What somebody on the way has changed is not taken, and the connection is over.
    let mut changed = client.connect(setup.address(0)).expect("TLS");
    changed.conn.writer().write_all(b"changed\n").expect("room");
    let mut wire = Vec::new();
    changed.conn.write_tls(&mut wire).expect("memory");
    *wire.last_mut().expect("a record") ^= 1;
    changed.sock.write_all(&wire).expect("it reads");
    server.wait_log("TLS connection broken");
    server.wait_status("the end", closed);
    server.wait_delivered(1);
    drop((open, changed));
    assert_eq!(server.status()["listeners"][0]["tls"]["failed"], 0);
}
