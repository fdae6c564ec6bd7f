//! If this fails, messages vanish from the ledger when the disk fails or has no room at the end: their senders believe that they
//! arrived, and the server reports no drops.

use std::io::Write;
use std::net::UdpSocket;

use crate::support::flood::wait_standstill;
use crate::support::session::{Answer, Session, batch, stream_id};
use crate::support::{Server, Setup, assert_balanced};
use bbq_wire::session::{AckLevel, RefusalCode};
use serde_json::{Value, json};

/// No file may grow beyond 64 blocks, and a segment is allocated whole: creating it fails, and not for want of room.
const NO_SEGMENTS: [&str; 3] = ["sh", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""];

/// Waits until the ledger shows what a listener lost, while the server runs.
fn wait_unwritten(server: &Server<'_>, listener: usize, messages: u64) -> Value {
    let status = server.wait_status("the loss", |status| {
        status["listeners"][listener]["ledger"]["dropped"]["unwritten"] == messages
    });
    assert_balanced(&status);
    assert_eq!(status["ledger"]["queued"], 0, "{status:#}");
    status
}

#[test]
fn a_lane_that_fails_counts_at_once_what_nobody_sends_again() {
    let setup =
        Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}", "bbq+udp://127.0.0.1:{2}"])
            .with(&["--workers", "1"])
            .prefix(&NO_SEGMENTS);
    let server = setup.start();
    let (mut received, _) = Session::open_at(setup.address(0), stream_id(1), AckLevel::Received);
    received.write(&batch(stream_id(1), 1, &["one", "two", "three"]));
    assert_eq!(received.next(), Answer::Ack(3));
    wait_unwritten(&server, 0, 3);
    // The sender is told, as its next messages cannot be stored.
    assert_eq!(received.refused("a client of a failed lane").code, RefusalCode::SpoolFailed);
    server.send(1, b"four\nfive\n");
    wait_unwritten(&server, 1, 2);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.send_to(&batch(stream_id(2), 1, &["six"]), setup.address(2)).expect("it listens");
    let status = wait_unwritten(&server, 2, 1);
    assert_eq!(status["ledger"]["received"], 6, "{status:#}");
    server.stop();
    setup.wait_log("received=6");
}

#[test]
fn a_lane_that_fails_takes_back_what_is_sent_again() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]).prefix(&NO_SEGMENTS);
    let server = setup.start();
    let (mut durable, _) = Session::open(setup.address(0), stream_id(1));
    durable.write(&batch(stream_id(1), 1, &["one", "two"]));
    assert_eq!(durable.refused("a client of a failed lane").code, RefusalCode::SpoolFailed);
    let status = server.status();
    assert_balanced(&status);
    let nothing = json!({ "received": 0, "delivered": 0, "delivered_by_any": 0, "queued": 0, "dropped": {}, "filtered": 0 });
    assert_eq!(status["ledger"], nothing);
}

#[test]
fn what_finds_no_room_at_the_stop_is_in_the_ledger_of_the_next_start() {
    const OF_BATCH: u64 = 100;
    // Without a sink, nothing makes room.
    let config =
        "sink = []\ndrain_timeout_seconds = 0\n[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"2MiB\"\n";
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]).config(config);
    setup.set_sinks(&[]);
    let server = setup.start();
    let (mut session, _) = Session::open_at(setup.address(0), stream_id(1), AckLevel::Received);
    let mut writer = session.stream.try_clone().expect("a descriptor");
    let messages: Vec<String> = (0..OF_BATCH).map(|_| format!("{:x<1000}", "")).collect();
    let mut acknowledged = 0;
    std::thread::scope(|scope| {
        let _guard = server.killed_if_this_fails();
        // More than the spool and its buffers take; the end of the server ends it.
        scope.spawn(|| {
            for number in 0.. {
                if writer.write_all(&batch(stream_id(1), number * OF_BATCH + 1, &messages)).is_err() {
                    return;
                }
            }
        });
        server
            .wait_status("no room", |status| status["spool"]["lanes"][0]["condition"] == "waiting-for-space");
        wait_standstill(&server);
        server.signal(libc::SIGTERM);
        while let Answer::Ack(sequence) = session.next() {
            acknowledged = sequence;
        }
        assert_eq!(server.wait_end(), Some(1), "messages were lost\n{}", setup.log());
    });
    setup.set_sinks(&["file:{dir}/out.log"]);
    let server = setup.start();
    let status = server.wait_status("delivery", |status| {
        status["ledger"]["delivered"].as_u64() > Some(0) && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    let delivered = status["ledger"]["delivered"].as_u64().unwrap();
    let lost = status["listeners"][0]["ledger"]["dropped"]["unwritten"].as_u64().unwrap_or(0);
    assert!(delivered < acknowledged, "nothing was lost, so this shows nothing\n{status:#}");
    assert!(delivered + lost >= acknowledged, "{acknowledged} were acknowledged\n{status:#}");
    assert_eq!(String::from_utf8(setup.written()).unwrap().lines().count() as u64, delivered);
}
