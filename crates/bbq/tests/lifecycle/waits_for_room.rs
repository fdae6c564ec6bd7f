//! If this fails, a full lane or a disk that hangs costs more than the wait: dead connections stay for ever, clients are cut off for the
//! server's own delay, messages are dropped on a disk that is only slow, or signals have no effect.

use crate::support;
use crate::support::fault::Fault;
use crate::support::session::{Answer, Session, batch, hello, stream_id};
use crate::support::{Setup, assert_balanced};
use bbq_wire::session::RefusalCode;

/// A lane holds little in memory.
const CONFIG: &str = "workers = 1\n[spool]\nsegment_bytes = \"64KiB\"\n";
const LISTENERS: usize = 5;
/// Longer than a test waits for anything.
const FROZEN: &str = "fdatasync:delay_enter=100000000";

fn message(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// Holds the lane's disk, and fills the lane's memory until a batch of 60 KB has to wait.
fn fill(setup: &Setup, server: &support::Server<'_>, delay: &str) -> (Session, Fault) {
    let (mut filler, _) = Session::open(setup.address(0), stream_id(1));
    let frozen = Fault::inject(server.pid(), "lane-0", delay);
    filler.write(&batch(stream_id(1), 1, &[message(100)]));
    frozen.wait_held(server.pid(), libc::SYS_fdatasync);
    filler.write(&batch(stream_id(1), 2, &[message(20_000)]));
    server.wait_status("a batch in memory", |status| status["ledger"]["received"] == 2);
    (filler, frozen)
}

#[test]
fn who_has_come_again_leaves_no_connection_behind_and_is_told_of_a_stop() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config(CONFIG);
    let server = setup.start();
    let (_filler, frozen) = fill(&setup, &server, FROZEN);
    let large = batch(stream_id(2), 1, &[message(60_000)]);
    let (mut older, _) = Session::open(setup.address(0), stream_id(2));
    older.write(&large);
    // Nothing of its stream is in memory, so the next connection is welcome at once.
    let mut newer = Session::connect(setup.address(0));
    newer.write(&hello(stream_id(2)));
    assert!(matches!(newer.next(), Answer::Welcome(_)));
    assert_eq!(older.refused("a connection that nobody speaks over").code, RefusalCode::TakenOver);
    newer.write(&large);
    server.signal(libc::SIGTERM);
    assert_eq!(newer.refused("a batch that waits for room at a stop").code, RefusalCode::ShuttingDown);
    drop(frozen);
    assert_eq!(server.wait_end(), Some(0), "{}", setup.log());
}

#[test]
fn a_client_is_not_cut_off_for_the_time_that_the_server_had_no_room() {
    let config = format!("batch_timeout_seconds = 1\n{CONFIG}");
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config(&config);
    let server = setup.start();
    let (mut filler, _frozen) = fill(&setup, &server, "fdatasync:delay_enter=4000000:when=1");
    let (mut session, _) = Session::open(setup.address(0), stream_id(2));
    // The second batch is too large to be read beside the first: a part of it is held when there is room again.
    let both =
        [batch(stream_id(2), 1, &[message(60_000)]), batch(stream_id(2), 2, &[message(900_000)])].concat();
    let mut writer = session.stream.try_clone().expect("a descriptor");
    std::thread::scope(|scope| {
        scope.spawn(move || std::io::Write::write_all(&mut writer, &both).expect("it reads"));
        session.acknowledged(2);
    });
    filler.acknowledged(2);
    server.stop();
}

#[test]
fn what_was_received_is_written_at_a_stop_however_long_one_sync_takes() {
    // Longer than a stop waits for clients.
    let slow = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-P"];
    // A batch for each, and none fits beside another.
    let listeners: Vec<String> =
        (0..LISTENERS).map(|index| format!("lines+tcp://127.0.0.1:{{{index}}}")).collect();
    let setup = Setup::new(&listeners.iter().map(String::as_str).collect::<Vec<_>>()).config(CONFIG);
    let lane = setup.data().join("spool/lane-0/00000000000000000000.seg");
    let lane = lane.to_str().expect("it is text").to_owned();
    let setup = setup.prefix(&[&slow[..], &[&lane, "-e", "inject=fdatasync:delay_enter=7000000"]].concat());
    let server = setup.start();
    let lines: String = (0..400).map(|number| format!("line {number:06} {:x<100}\n", "")).collect();
    (0..LISTENERS).for_each(|listener| server.send(listener, lines.as_bytes()));
    server.wait_status("the first lines", |status| status["ledger"]["received"].as_u64() > Some(0));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let server = setup.start();
    let status = server.wait_status("the rest", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], serde_json::json!({}), "{status:#}\n{}", setup.log());
    assert_eq!(setup.written().len(), lines.len() * LISTENERS, "{}", setup.log());
}

#[test]
fn signals_are_heard_while_the_ledger_of_drops_waits_for_the_disk() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?on_oversize=refuse&message_bytes_max=1KiB"]);
    let server = setup.start();
    let frozen = Fault::inject(server.pid(), "retention", FROZEN);
    server.send(0, format!("{}\n", message(5000)).as_bytes());
    frozen.wait_held(server.pid(), libc::SYS_fdatasync);
    server.signal(libc::SIGHUP);
    server.wait_log("nothing has changed");
    drop(frozen);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
