//! If this fails, `replicated` is said of messages that the second server does not have, and the loss of one disk loses them; or such
//! acknowledgements stop.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use bbq_client::{AckLevel, OnFull, Sender};
use bbq_wire::session::RefusalCode;

use crate::support::random::Random;
use crate::support::session::{Answer, Session, batch, hello_at, stream_id};
use crate::support::{BBQ, PATIENCE, Server, Setup, refused_start};

/// The second server.
fn second() -> Setup {
    Setup::new(&["bbq+tcp://127.0.0.1:{0}"])
}

/// A server that writes a file, and passes on to the second one.
fn first(second: &Setup) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 1\n");
    let file = format!("file:{}", setup.output().display());
    setup.set_sinks(&[&file, &format!("bbq://{}", second.address(0))]);
    setup
}

/// Waits until the first server has written so many messages to its file: they are durable there.
fn wait_written(server: &Server<'_>, messages: u64) {
    server.wait_status("written", |status| status["sinks"][0]["delivered"] == messages);
}

/// Whether the server has said nothing that was not read yet.
fn is_silent(session: &Session) -> bool {
    session.stream.set_nonblocking(true).expect("a socket option");
    let found = session.stream.peek(&mut [0]);
    session.stream.set_nonblocking(false).expect("a socket option");
    found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn what_the_second_server_does_not_have_is_not_acknowledged() {
    let second = second();
    let at_second = second.start();
    let first = first(&second);
    let at_first = first.start_with_workers(1);
    let (one, other) = (stream_id(1), stream_id(2));
    let (mut replicated, _) = Session::open_at(first.address(0), one, AckLevel::Replicated);
    replicated.write(&batch(one, 1, &["both have it"]));
    replicated.acknowledged(1);
    at_second.wait_delivered(1);

    at_second.freeze();
    replicated.write(&batch(one, 2, &["one", "two"]));
    replicated.write(&batch(one, 4, &["three"]));
    wait_written(&at_first, 4);
    // This is durable later, in the same lane.
    let (mut durable, _) = Session::open(first.address(0), other);
    durable.write(&batch(other, 1, &["here alone"]));
    durable.acknowledged(1);
    assert!(is_silent(&replicated), "the second server is frozen");

    // A new connection is not welcomed with what the second server does not have; it is told why.
    let mut again = Session::connect(first.address(0));
    again.write(&hello_at(one, AckLevel::Replicated));
    let refusal = again.refused("the second server is frozen");
    assert_eq!(refusal.code, RefusalCode::Busy, "{refusal:?}");
    assert!(refusal.text.contains("the next server does not have"), "{refusal:?}");

    at_second.signal(libc::SIGCONT);
    let (mut again, known) = Session::open_at(first.address(0), one, AckLevel::Replicated);
    assert_eq!(known, 4, "the second server has it before the welcome says so");
    at_second.wait_delivered(5);
    again.write(&batch(one, 5, &["four"]));
    again.acknowledged(5);
}

/// An acknowledgement that comes while nothing else happens.
#[test]
fn acknowledgements_come_when_the_second_server_is_back() {
    let second = second();
    let at_second = second.start();
    let first = first(&second);
    let at_first = first.start_with_workers(1);
    let id = stream_id(1);
    let (mut session, _) = Session::open_at(first.address(0), id, AckLevel::Replicated);
    at_second.freeze();
    for sequence in 1..=100 {
        session.write(&batch(id, sequence, &[format!("number {sequence}")]));
        wait_written(&at_first, sequence);
    }
    assert!(is_silent(&session));
    at_second.signal(libc::SIGCONT);
    session.acknowledged(100);
}

#[test]
fn a_server_without_a_second_one_says_what_is_missing() {
    let alone = second();
    let _at_alone = alone.start();
    let to = format!("bbq://{}", alone.address(0));
    let file = alone.path().join("lines");
    fs::write(&file, "a line\n").expect("a file");
    let (code, said) =
        refused_start(Command::new(BBQ).args(["send", "--ack", "replicated", "--to", &to]).arg(file));
    assert!(said.contains("give the server a sink bbq: to a second server"), "{said}");
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn a_server_that_may_delete_messages_unread_does_not_promise_it() {
    let second = second();
    let mut first = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}?on_full=drop-oldest"]);
    first.set_sinks(&[&format!("bbq://{}", second.address(0))]);
    let _at_first = first.start();
    let mut session = Session::connect(first.address(0));
    session.write(&hello_at(stream_id(1), AckLevel::Replicated));
    match session.next() {
        Answer::Welcome(welcome) => assert_eq!(welcome.ack, AckLevel::Durable),
        other => panic!("no welcome but {other:?}"),
    }
}

/// Streams whose messages are in lanes that have no worker any more.
#[test]
fn a_welcome_says_nothing_too_early_after_a_start_with_fewer_workers() {
    const STREAMS: u8 = 16;
    let (second, away) = (second(), "nobody listens there");
    let first = first(&second);
    let at_first = first.start_with_workers(4);
    for number in 0..STREAMS {
        let id = stream_id(number);
        let (mut session, _) = Session::open_at(first.address(0), id, AckLevel::Replicated);
        session.write(&batch(id, 1, &["a message"]));
        wait_written(&at_first, u64::from(number) + 1);
    }
    at_first.kill();
    let _at_first = first.start_with_workers(1);
    let again = (0..STREAMS).map(|number| {
        let mut session = Session::connect(first.address(0));
        session.write(&hello_at(stream_id(number), AckLevel::Replicated));
        session
    });
    let again: Vec<Session> = again.collect();
    for session in again {
        assert_eq!(session.refused(away).code, RefusalCode::Busy);
    }
}

#[test]
fn clients_that_go_away_leave_nothing_open_while_the_second_server_is_away() {
    const CLIENTS: u8 = 100;
    let second = second();
    let first = first(&second);
    let at_first = first.start_with_workers(1);
    for number in 0..CLIENTS {
        let id = stream_id(number);
        let (mut session, _) = Session::open_at(first.address(0), id, AckLevel::Replicated);
        // It is closed before the batch is on the disk.
        session.write(&batch(id, 1, &["a message"]));
    }
    at_first.wait_status("no session", |status| status["workers"][0]["connections"] == 0);
}

/// Sends while both servers are killed by chance. Then one of them is killed and its disk is deleted: what was acknowledged until then
/// must be at the other.
fn loses_a_disk(lose_first: bool) {
    const RECORDS: u64 = 60_000;
    /// Sent after the last kill of both.
    const AT_THE_END: u64 = 5_000;
    let mut random = Random::seeded();
    let second = second();
    let first = first(&second);
    let (mut at_second, mut at_first) = (second.start(), first.start_with_workers(1));
    let sender = Sender::builder()
        .server(format!("bbq://{}", first.address(0)).parse().expect("an address"))
        .ack(AckLevel::Replicated)
        // Room for all that is sent while the second server is frozen.
        .queue_bytes_max(4 * 1024 * 1024)
        .on_full(OnFull::Block(Some(PATIENCE)))
        .start()
        .expect("it starts");
    for number in 0..RECORDS {
        if number == RECORDS - AT_THE_END {
            sender.flush(PATIENCE).expect("both servers work");
            if lose_first {
                // From here on the first server alone has what is sent.
                at_second.freeze();
            }
        }
        sender.send(number.to_string().as_bytes()).expect("room");
        if number % 15_000 == 7_000 + random.below(1000) {
            if random.below(2) == 0 {
                at_first.kill();
                at_first = first.start_with_workers(2);
            } else {
                at_second.kill();
                at_second = second.start();
            }
        }
    }
    wait_written(&at_first, RECORDS);
    let (lost, lost_setup, kept, kept_setup) = match lose_first {
        true => (at_first, &first, at_second, &second),
        false => (at_second, &second, at_first, &first),
    };
    lost.kill();
    kept.signal(libc::SIGCONT);
    let acknowledged = sender.counters().acknowledged;
    fs::remove_dir_all(lost_setup.data()).expect("it is there");
    let _gone = fs::remove_file(lost_setup.output());
    drop(sender);
    kept.wait_status("what it has is delivered", |status| status["sinks"][0]["queued"] == 0);
    let written = String::from_utf8(kept_setup.written()).expect("text");
    let mut seen = vec![false; RECORDS as usize];
    for line in written.lines() {
        let number: usize = line.parse().expect("a number");
        assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
    }
    let missing = seen.iter().take(acknowledged as usize).position(|seen| !seen);
    assert_eq!(missing, None, "of {acknowledged} that were acknowledged");
    assert!(acknowledged >= RECORDS - AT_THE_END, "{acknowledged}");
}

#[test]
fn the_loss_of_the_first_disk_loses_nothing_that_was_acknowledged() {
    loses_a_disk(true);
}

#[test]
fn the_loss_of_the_second_disk_loses_nothing_that_was_acknowledged() {
    loses_a_disk(false);
}
