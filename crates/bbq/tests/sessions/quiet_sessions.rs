//! If this fails, a bbq client that was quiet for a while is not served as before: its messages are not taken, taken twice or not
//! acknowledged, or the client is not told when the server stops, pauses or fails, or when another connection owns its stream.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::net::SocketAddr;

use crate::support::lineage::Lineage;
use crate::support::session::{Answer, Session, batch, hello, hello_at, stream_id};
use crate::support::{Setup, assert_balanced, free_ports};
use bbq_wire::session::AckLevel;
use bbq_wire::{RefusalCode, StreamId};
use serde_json::Value;

const LISTEN: &str = "bbq+tcp://127.0.0.1:{0}";

/// Of all workers.
fn sum(status: &Value, field: &str) -> u64 {
    let workers = status["workers"].as_array().expect("workers");
    workers.iter().map(|worker| worker[field].as_u64().expect("a number")).sum()
}

/// Whether there is this number of sessions, and none has a task.
fn all_are_quiet(status: &Value, sessions: u64) -> bool {
    sum(status, "sessions") == sessions && sum(status, "sessions_active") == 0
}

/// A session at another level than what [`Session::open`] asks for.
fn open_at(ack: AckLevel, address: SocketAddr, id: StreamId) -> Session {
    let mut session = Session::connect(address);
    session.write(&hello_at(id, ack));
    let answer = session.next();
    assert!(matches!(&answer, Answer::Welcome(welcome) if welcome.ack == ack), "{answer:?}");
    session
}

#[test]
fn a_session_that_was_quiet_goes_on_where_it_was() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let id = stream_id(1);
    let (mut session, _) = Session::open(setup.address(0), id);
    for sequence in [1, 3, 5] {
        server.wait_status("a quiet session", |status| all_are_quiet(status, 1));
        session.write(&batch(id, sequence, &[format!("{sequence}")]));
        session.acknowledged(sequence);
        session.write(&batch(id, sequence + 1, &[format!("{}", sequence + 1)]));
        session.acknowledged(sequence + 1);
    }
    server.wait_status("a quiet session", |status| all_are_quiet(status, 1));
    // Like a client that has not read its last acknowledgement.
    session.write(&batch(id, 6, &["6"]));
    session.acknowledged(6);
    server.wait_status("a quiet session", |status| all_are_quiet(status, 1));
    session.write(&batch(id, 6, &["6", "7"]));
    session.acknowledged(7);
    drop(session);
    let status = server.wait_delivered(7);
    assert_eq!(status["listeners"][0]["ledger"]["duplicates"], 3, "{status:#}");
    assert_eq!(setup.written(), b"1\n2\n3\n4\n5\n6\n7\n");
    server.wait_status("no session", |status| all_are_quiet(status, 0) && sum(status, "connections") == 0);
}

#[test]
fn who_waits_only_until_it_is_received_goes_on_as_well() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let id = stream_id(1);
    let mut session = open_at(AckLevel::Received, setup.address(0), id);
    for sequence in 1..=2 {
        session.write(&batch(id, sequence, &[format!("{sequence}")]));
        assert_eq!(session.next(), Answer::Ack(sequence));
        server.wait_status("a quiet session", |status| all_are_quiet(status, 1));
    }
    session.write(&batch(id, 2, &["2"]));
    assert_eq!(session.next(), Answer::Ack(2), "said once more to who sends it once more");
    let status = server.wait_delivered(2);
    assert_eq!(status["listeners"][0]["ledger"]["duplicates"], 1, "{status:#}");
    assert_eq!(setup.written(), b"1\n2\n");
}

#[test]
fn who_wants_no_acknowledgement_gets_none_after_it_was_quiet() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let id = stream_id(1);
    let mut session = open_at(AckLevel::None, setup.address(0), id);
    for sequence in 1..=2 {
        session.write(&batch(id, sequence, &[format!("{sequence}")]));
        server.wait_delivered(sequence);
        server.wait_status("a quiet session", |status| all_are_quiet(status, 1));
    }
    session.write(&batch(id, 2, &["2"]));
    session.write(&batch(id, 3, &["3"]));
    session.end();
    assert_eq!(session.next(), Answer::Closed);
    let status = server.wait_delivered(3);
    assert_eq!(status["listeners"][0]["ledger"]["duplicates"], 1, "{status:#}");
    assert_eq!(setup.written(), b"1\n2\n3\n");
}

#[test]
fn who_leaves_while_quiet_is_gone() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let silent = Session::connect(setup.address(0));
    let (ends, _) = Session::open(setup.address(0), stream_id(1));
    let (closes, _) = Session::open(setup.address(0), stream_id(2));
    let (mut stays, _) = Session::open(setup.address(0), stream_id(3));
    server.wait_status("four quiet sessions", |status| all_are_quiet(status, 4));
    ends.end();
    drop((silent, closes));
    server.wait_status("one session", |status| all_are_quiet(status, 1) && sum(status, "connections") == 1);
    let mut ends = ends;
    assert_eq!(ends.next(), Answer::Closed, "nothing is said to who has ended");
    stays.write(&batch(stream_id(3), 1, &["still here"]));
    stays.acknowledged(1);
    let status = server.wait_delivered(1);
    assert_eq!(status["listeners"][0]["ledger"]["refused"], 0, "{status:#}");
}

#[test]
fn a_hello_may_come_late_and_in_pieces() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let id = stream_id(1);
    let mut session = Session::connect(setup.address(0));
    server.wait_status("a connection", |status| all_are_quiet(status, 1));
    let hello = hello(id);
    session.write(&hello[..10]);
    server.wait_status("half a hello", |status| sum(status, "sessions_active") == 1);
    session.write(&hello[10..]);
    assert!(matches!(session.next(), Answer::Welcome(_)));
    session.write(&batch(id, 1, &["late"]));
    session.acknowledged(1);
    server.wait_delivered(1);
}

#[test]
fn who_was_quiet_when_another_took_the_stream_is_refused() {
    let setup = Setup::new(&[LISTEN]).with(&["--workers", "2"]);
    let server = setup.start();
    let id = stream_id(1);
    let (mut older, _) = Session::open(setup.address(0), id);
    older.write(&batch(id, 1, &["1"]));
    older.acknowledged(1);
    server.wait_status("a quiet session", |status| all_are_quiet(status, 1));
    let (mut newer, last) = Session::open(setup.address(0), id);
    assert_eq!(last, 1);
    server.wait_status("two quiet sessions", |status| all_are_quiet(status, 2));
    older.write(&batch(id, 2, &["of the older"]));
    assert_eq!(older.refused("taken over").code, RefusalCode::TakenOver);
    newer.write(&batch(id, 2, &["of the newer"]));
    newer.acknowledged(2);
    server.wait_delivered(2);
    assert_eq!(setup.written(), b"1\nof the newer\n");
}

#[test]
fn a_stop_takes_what_quiet_sessions_have_sent_and_tells_them() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let (mut sends, _) = Session::open(setup.address(0), stream_id(1));
    let (says_nothing, _) = Session::open(setup.address(0), stream_id(2));
    let mut silent = Session::connect(setup.address(0));
    server.wait_status("three quiet sessions", |status| all_are_quiet(status, 3));
    // While the server stands still, a batch and then the signal come: the server finds both when it goes on.
    server.freeze();
    sends.write(&batch(stream_id(1), 1, &["before the stop"]));
    server.signal(libc::SIGTERM);
    server.signal(libc::SIGCONT);
    sends.acknowledged(1);
    assert_eq!(sends.refused("a stop").code, RefusalCode::ShuttingDown);
    assert_eq!(says_nothing.refused("a stop").code, RefusalCode::ShuttingDown);
    assert_eq!(silent.next(), Answer::Closed);
    assert_eq!(server.wait_end(), Some(0), "{}", setup.log());
    assert_eq!(setup.written(), b"before the stop\n");
}

#[test]
fn a_reload_tells_quiet_sessions_to_come_again() {
    let mut setup = Setup::new(&[]);
    setup.ports = free_ports(2);
    let configure = |setup: &Setup, spec: &str| {
        let text = format!("listen = [{:?}]\n", setup.fill(spec));
        fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
    };
    configure(&setup, LISTEN);
    let setup = setup.with(&["--config", "{dir}/bbq.toml"]);
    let server = Lineage::start(&setup);
    let id = stream_id(1);
    let (mut session, _) = Session::open(setup.address(0), id);
    session.write(&batch(id, 1, &["1"]));
    session.acknowledged(1);
    server.wait_status("a quiet session", |status| all_are_quiet(status, 1));
    configure(&setup, &format!("{LISTEN}?message_bytes_max=1KiB"));
    server.reload();
    assert_eq!(session.refused("a pause").code, RefusalCode::ShuttingDown);
    let (mut session, last) = Session::open(setup.address(0), id);
    assert_eq!(last, 1);
    session.write(&batch(id, 2, &["2"]));
    session.acknowledged(2);
    assert_balanced(&server.wait_delivered(2));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn who_was_quiet_when_the_disk_failed_hears_of_it() {
    // As in failed_lane.rs: no segment can be created.
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let setup = Setup::new(&[LISTEN]).with(&["--workers", "1"]).prefix(&["sh", "-c", limited]);
    let server = setup.start();
    let (mut quiet, _) = Session::open(setup.address(0), stream_id(1));
    let (mut sends, _) = Session::open(setup.address(0), stream_id(2));
    server.wait_status("two quiet sessions", |status| all_are_quiet(status, 2));
    sends.write(&batch(stream_id(2), 1, &["lost"]));
    assert_eq!(sends.refused("the lane failed").code, RefusalCode::SpoolFailed);
    quiet.write(&batch(stream_id(1), 1, &["too late"]));
    assert_eq!(quiet.refused("the lane failed").code, RefusalCode::SpoolFailed);
}
