//! If this fails, a sender with several servers loses or doubles a message, or one server holds up the others.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use crate::support::{PATIENCE, Setup, pause};
use bbq_client::{Delivery, Notice, OnFull, SendError, Sender, SenderBuilder};
use bbq_wire::session::{Refusal, RefusalCode};

fn setups(count: usize) -> Vec<Setup> {
    (0..count).map(|_| Setup::new(&["bbq+tcp://127.0.0.1:{0}"])).collect()
}

fn to(setups: &[Setup]) -> SenderBuilder {
    let servers =
        setups.iter().map(|setup| format!("bbq://{}", setup.address(0)).parse().expect("an address"));
    Sender::builder().servers(servers).on_full(OnFull::Block(None))
}

fn send(sender: &Sender, numbers: std::ops::Range<u32>) {
    for number in numbers {
        sender.send(format!("message {number}").as_bytes()).expect("there is room");
    }
}

fn expected(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|number| format!("message {number}\n")).collect()
}

/// Waits until the servers before `count` have acknowledged everything up to `number`.
fn wait_acknowledged(sender: &Sender, count: usize, number: u64) {
    let start = std::time::Instant::now();
    while !sender.servers()[..count].iter().all(|server| server.acknowledged_sequence >= number) {
        assert!(start.elapsed() < PATIENCE, "{:?}", sender.servers());
        pause();
    }
}

#[test]
fn every_server_gets_everything_and_one_that_is_away_holds_up_nobody() {
    const HALF: u32 = 50_000;
    let setups = setups(3);
    let [first, second] = [setups[0].start(), setups[1].start()];
    let sender = to(&setups).delivery(Delivery::All).start().expect("it starts");
    send(&sender, 0..HALF);
    let third = setups[2].start();
    wait_acknowledged(&sender, 3, u64::from(HALF));
    third.kill();
    send(&sender, HALF..2 * HALF);
    // Without the third.
    wait_acknowledged(&sender, 2, 2 * u64::from(HALF));
    assert!(sender.servers()[2].acknowledged_sequence < 2 * u64::from(HALF), "{:?}", sender.servers());
    let third = setups[2].start();
    let counters = sender.close(PATIENCE).expect("all three have it");
    assert_eq!(counters.acknowledged, 2 * u64::from(HALF), "{counters:?}");
    for (server, setup) in [first, second, third].into_iter().zip(&setups) {
        server.wait_delivered(2 * u64::from(HALF));
        assert_eq!(server.stop(), Some(0));
        assert!(setup.written() == expected(0..2 * HALF).as_bytes(), "{}", setup.log());
    }
}

#[test]
fn the_first_that_answers_and_back_to_the_preferred_one() {
    let setups = setups(2);
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notices);
    let sender = to(&setups)
        .on_notice(move |notice| heard.lock().unwrap_or_else(PoisonError::into_inner).push(notice.clone()))
        .start()
        .expect("it starts");
    let second = setups[1].start();
    send(&sender, 0..100);
    sender.flush(PATIENCE).expect("the second answers");
    second.wait_delivered(100);
    let first = setups[0].start();
    let start = std::time::Instant::now();
    let preferred = format!("bbq://{}", setups[0].address(0));
    while sender.servers()[0].server != preferred || !sender.servers()[0].connected {
        assert!(start.elapsed() < PATIENCE, "{:?}", sender.servers());
        pause();
    }
    send(&sender, 100..200);
    sender.close(PATIENCE).expect("the first answers");
    first.wait_delivered(100);
    second.wait_delivered(100);
    assert!(setups[1].written() == expected(0..100).as_bytes());
    assert!(setups[0].written() == expected(100..200).as_bytes());
    let notices = notices.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(
        matches!(&notices[..], [Notice::Unreachable { .. }, Notice::Connected { .. }, ..]),
        "{notices:?}"
    );
}

#[test]
fn another_server_is_used_when_the_present_one_is_killed() {
    let setups = setups(2);
    let (first, second) = (setups[0].start(), setups[1].start());
    let sender = to(&setups).start().expect("it starts");
    send(&sender, 0..1000);
    sender.flush(PATIENCE).expect("the first answers");
    first.wait_delivered(1000);
    first.kill();
    send(&sender, 1000..2000);
    sender.close(PATIENCE).expect("the second answers");
    second.wait_delivered(1000);
    assert!(setups[0].written() == expected(0..1000).as_bytes());
    assert!(setups[1].written() == expected(1000..2000).as_bytes());
}

#[test]
fn a_server_that_is_none_does_not_end_a_sender_that_has_another() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = stranger.local_addr().expect("bound");
    let answering = std::thread::spawn(move || {
        let (mut client, _) = stranger.accept().expect("it is tried");
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it listens");
    });
    let sender = Sender::builder()
        .server(address.to_string().parse().expect("an address"))
        .server(setup.address(0).to_string().parse().expect("an address"))
        .start()
        .expect("it starts");
    send(&sender, 0..100);
    answering.join().expect("it was tried");
    let server = setup.start();
    let counters = sender.close(PATIENCE).expect("the other one answers");
    assert_eq!(counters.acknowledged, 100, "{counters:?}");
    server.wait_delivered(100);
}

#[test]
fn a_server_that_refuses_for_good_ends_the_sender_and_says_why() {
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = stranger.local_addr().expect("bound");
    let (took_one, has_one) = std::sync::mpsc::sync_channel(1);
    let answering = std::thread::spawn(move || {
        let (mut client, _) = stranger.accept().expect("it is tried");
        let mut refusal = Vec::new();
        Refusal::new(RefusalCode::Version, "version 7 is wanted").encode(&mut refusal);
        has_one.recv().expect("it takes one");
        client.write_all(&refusal).expect("it listens");
    });
    let sender = Sender::builder()
        .server(address.to_string().parse().expect("an address"))
        .queue_bytes_max(64 * 1024)
        // Even if it would wait for room for ever.
        .on_full(OnFull::Block(None))
        .start()
        .expect("it starts");
    // The missing messages are those that `flush` cannot deliver.
    sender.send(b"first").expect("there is room");
    took_one.send(()).expect("it waits");
    let error = (0..).find_map(|number: u64| sender.send(&number.to_le_bytes()).err()).expect("an error");
    assert!(matches!(error, SendError::Refused { .. }), "{error}");
    assert!(sender.flush(PATIENCE).is_err());
    answering.join().expect("it was tried");
}
