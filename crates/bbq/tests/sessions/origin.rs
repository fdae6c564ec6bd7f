//! If this fails, what the first server knew of a message is lost when another server passes it on: its listener, its peer, and when it
//! came.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use bbq_wire::batch::{BatchIdentity, Origin};
use bbq_wire::{BatchBuilder, Compression, Peer, SourceKind, StreamId};
use serde_json::{Value, json};

use crate::support::Setup;
use crate::support::session::{Session, stream_id};

/// 2026-01-01 00:00:00.000000007 UTC.
const RECEIVED_NS: u64 = 1_767_225_600_000_000_007;
const LISTENER: &str = "syslog+udp://0.0.0.0:514";

/// Two lines as another server passes them on, the second from a peer without an address.
fn passed_on(stream: StreamId, first_sequence: u64, with_peers: bool) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let peer = Peer::Inet(([192, 0, 2, 1], 40_000).into());
    match with_peers {
        true => builder.push_from(b"one", peer),
        false => builder.push(b"one"),
    }
    builder.push(b"two");
    builder.set_origin(&Origin { received_ns: RECEIVED_NS, listener: LISTENER });
    let identity = BatchIdentity {
        stream,
        first_sequence,
        base_time_ns: 1,
        source: SourceKind::Lines,
        compression: Compression::None,
    };
    builder.finish(&identity).expect("it has records").to_vec()
}

#[test]
fn it_survives_another_server() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).sink_query("?format=json");
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    for (first, with_peers) in [(1, true), (3, false)] {
        session.write(&passed_on(stream_id(1), first, with_peers));
    }
    session.acknowledged(4);
    server.wait_delivered(4);
    assert_eq!(server.stop(), Some(0));
    let written = setup.written();
    let lines = written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let known: Vec<Value> = lines
        .map(|line| {
            let line: Value = serde_json::from_slice(line).expect("a JSON object");
            json!([line["message"], line["time"], line["listener"], line["peer"]])
        })
        .collect();
    let time = "2026-01-01T00:00:00.000000007Z";
    assert_eq!(
        known,
        [
            json!(["one", time, LISTENER, "192.0.2.1:40000"]),
            json!(["two", time, LISTENER, null]),
            json!(["one", time, LISTENER, null]),
            json!(["two", time, LISTENER, null]),
        ]
    );
}
