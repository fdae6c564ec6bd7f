//! If this fails, an application blocks or grows without bound because its server does not work, or is not told what was dropped.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::net::TcpListener;
use std::time::Duration;

use crate::support::{PATIENCE, Setup};
use bbq_client::{Counters, OnFull, SendError, Sender};

const QUEUE_BYTES: usize = 1024 * 1024;
const MESSAGE: [u8; 100] = [b'm'; 100];
/// Ten times what the queue takes.
const MESSAGES: u64 = 10 * (QUEUE_BYTES / MESSAGE.len()) as u64;

fn assert_balanced(counters: &Counters) {
    let Counters { accepted, recovered, acknowledged, queued, dropped, .. } = *counters;
    assert_eq!(
        accepted + recovered,
        acknowledged + queued + dropped.oldest + dropped.abandoned,
        "{counters:?}"
    );
}

fn sender(server: &str, on_full: OnFull) -> Sender {
    Sender::builder()
        .server(server.parse().expect("an address"))
        .queue_bytes_max(QUEUE_BYTES)
        .on_full(on_full)
        .close_timeout(Duration::ZERO)
        .start()
        .expect("it starts")
}

/// Sends more than the queue holds to a server that takes nothing.
fn flood(server: &str, on_full: OnFull) -> (Sender, Counters) {
    let sender = sender(server, on_full);
    let mut full = 0;
    for _ in 0..MESSAGES {
        match sender.send(&MESSAGE) {
            Ok(()) => {}
            Err(SendError::Full { .. }) => full += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let counters = sender.counters();
    assert_balanced(&counters);
    assert_eq!(counters.dropped.full, full, "{counters:?}");
    assert_eq!(counters.accepted + full, MESSAGES, "{counters:?}");
    assert!(counters.queued_bytes <= QUEUE_BYTES as u64, "{counters:?}");
    (sender, counters)
}

#[test]
fn whatever_is_wrong_with_the_server_the_queue_keeps_its_bound_and_every_drop_is_counted() {
    // The backlog takes the connection, and no program reads.
    let stalled = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stalled = stalled.local_addr().expect("bound").to_string();
    // The port was free a moment ago, and no program uses port 1.
    for server in [stalled.as_str(), "127.0.0.1:1", "name.invalid:7700"] {
        let (_sender, counters) = flood(server, OnFull::DropNewest);
        assert!(counters.dropped.full > MESSAGES / 2, "{server}: {counters:?}");
        let (_sender, counters) = flood(server, OnFull::DropOldest);
        assert!(counters.dropped.oldest > MESSAGES / 2, "{server}: {counters:?}");
        assert_eq!(counters.dropped.full, 0, "{server}: {counters:?}");
    }
}

#[test]
fn waiting_for_room_ends_at_its_time_out() {
    let sender = sender("127.0.0.1:1", OnFull::Block(Some(Duration::from_millis(20))));
    let refused = (0..MESSAGES).find_map(|_| sender.send(&MESSAGE).err()).expect("it is full in the end");
    assert!(matches!(refused, SendError::Full { queue_bytes_max: QUEUE_BYTES }), "{refused}");
    assert_eq!(sender.counters().dropped.full, 1);
}

#[test]
fn an_offer_never_waits_and_what_is_refused_is_not_counted() {
    for (on_full, refuses) in
        [(OnFull::Block(None), true), (OnFull::DropNewest, true), (OnFull::DropOldest, false)]
    {
        let sender = sender("127.0.0.1:1", on_full);
        let refused = (0..MESSAGES).filter(|_| sender.try_send(&MESSAGE).is_err()).count() as u64;
        assert_eq!(refused > 0, refuses, "{on_full:?}");
        let counters = sender.counters();
        assert_balanced(&counters);
        assert_eq!((counters.accepted, counters.dropped.full), (MESSAGES - refused, 0), "{counters:?}");
        // No server has told its limit, and the record does not wait for it.
        let large = sender.try_send(&[b'x'; 2 << 20]);
        assert!(matches!(large, Err(SendError::MessageTooLarge { .. })), "{large:?}");
        assert_eq!(sender.counters().dropped.too_large, 0);
        assert!(matches!(sender.try_send(&MESSAGE), Err(SendError::Full { .. })) == refuses);
    }
}

#[test]
fn a_stopped_server_loses_nothing_and_learns_how_much_was_dropped() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let address = format!("bbq://{}", setup.address(0));
    let sender = sender(&address, OnFull::DropNewest);
    sender.send(b"first").expect("there is room");
    sender.flush(PATIENCE).expect("the server works");
    server.freeze();
    let mut dropped = 0;
    // The kernel's buffers hold some messages in addition to the queue.
    for _ in 0..20 * MESSAGES {
        dropped += u64::from(sender.send(&MESSAGE).is_err());
    }
    server.signal(libc::SIGCONT);
    assert!(dropped > 0);
    sender.flush(PATIENCE).expect("the server works again");
    // A report of the drops so far is sent when there is nothing else to send: at the end, and perhaps before.
    let start = std::time::Instant::now();
    while reported(&setup) != dropped {
        assert!(start.elapsed() < PATIENCE, "{} of {dropped}; {:?}", reported(&setup), sender.counters());
    }
    let counters = sender.close(PATIENCE).expect("the server works");
    assert_balanced(&counters);
    assert_eq!(counters.dropped.full, dropped, "{counters:?}");
    server.wait_delivered(counters.accepted);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(reported(&setup), dropped);
}

/// The number of dropped messages in the lines that a sender adds to its own.
fn reported(setup: &Setup) -> u64 {
    let written = setup.written();
    let lines = String::from_utf8_lossy(&written);
    let number = |line: &str| {
        let (number, rest) = line.strip_prefix("bbq: ")?.split_once(' ')?;
        rest.starts_with("of this sender's messages were dropped").then(|| number.parse::<u64>().ok())?
    };
    lines.lines().filter_map(number).sum()
}

#[test]
fn closing_gives_up_in_time_and_counts_what_is_lost() {
    let sender = sender("127.0.0.1:1", OnFull::DropNewest);
    for _ in 0..10 {
        sender.send(&MESSAGE).expect("there is room");
    }
    let error = sender.close(Duration::from_millis(20)).expect_err("nobody is there");
    assert!(matches!(error, SendError::Timeout { queued: 10, .. }), "{error}");
    let counters = sender.counters();
    assert_eq!((counters.dropped.abandoned, counters.queued), (10, 0), "{counters:?}");
    assert_balanced(&counters);
    assert!(matches!(sender.send(b"late"), Err(SendError::Closed)));
    assert_eq!(sender.counters().dropped.closed, 1);
}

#[test]
fn a_spool_takes_what_memory_does_not_and_all_of_it_is_delivered() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let builder = Sender::builder()
        .server(format!("bbq://{}", setup.address(0)).parse().expect("an address"))
        .queue_bytes_max(QUEUE_BYTES)
        .on_full(OnFull::DropNewest)
        .spool(setup.path().join("client"))
        .close_timeout(Duration::ZERO);
    let send = |sender: &Sender, numbers: std::ops::Range<u64>| {
        for number in numbers {
            sender.send(format!("{number} {number:0>100}").as_bytes()).expect("the spool has room");
        }
        let counters = sender.counters();
        assert_balanced(&counters);
        assert!(counters.queued_bytes <= QUEUE_BYTES as u64, "{counters:?}");
    };
    let sender = builder.clone().start().expect("it starts");
    send(&sender, 0..MESSAGES);
    let unsent = sender.close(Duration::ZERO).expect_err("nobody is there");
    assert!(matches!(unsent, SendError::Timeout { queued: MESSAGES, .. }), "{unsent}");
    drop(sender);
    let sender = builder.start().expect("it starts again");
    assert_eq!((sender.counters().recovered, sender.last_sequence()), (MESSAGES, MESSAGES));
    send(&sender, MESSAGES..2 * MESSAGES);
    let server = setup.start();
    let counters = sender.close(PATIENCE).expect("everything is acknowledged");
    assert_eq!(counters.acknowledged, 2 * MESSAGES, "{counters:?}");
    server.wait_delivered(2 * MESSAGES);
    assert_eq!(server.stop(), Some(0));
    let written = String::from_utf8(setup.written()).expect("text");
    let in_order =
        written.lines().zip(0..).all(|(line, number): (&str, u64)| line.starts_with(&format!("{number} ")));
    assert!(in_order && written.lines().count() as u64 == 2 * MESSAGES);
}

#[test]
fn a_message_that_the_server_does_not_take_is_dropped_alone() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}?message_bytes_max=1000"]);
    let sender = sender(&format!("bbq://{}", setup.address(0)), OnFull::DropNewest);
    // Before the server's limit is known.
    for (number, bytes) in [10, 5000, 20, 1001, 1000].into_iter().enumerate() {
        sender.send(&vec![b'0' + number as u8; bytes]).expect("there is room");
    }
    let server = setup.start();
    sender.flush(PATIENCE).expect("the others are acknowledged");
    assert!(matches!(sender.send(&[b'x'; 1001]), Err(SendError::MessageTooLarge { limit: 1000, .. })));
    sender.send(b"last").expect("it goes on");
    sender.flush(PATIENCE).expect("it goes on");
    let counters = sender.counters();
    assert_balanced(&counters);
    assert_eq!((counters.dropped.abandoned, counters.dropped.too_large), (2, 1), "{counters:?}");
    drop(sender);
    server.wait_status("the rest", |status| status["ledger"]["delivered"].as_u64() >= Some(4));
    assert_eq!(server.stop(), Some(0));
    let written = String::from_utf8(setup.written()).expect("text");
    let lines: Vec<usize> = written.lines().filter(|line| !line.starts_with("bbq: ")).map(str::len).collect();
    assert_eq!(lines, [10, 20, 1000, 4]);
}
