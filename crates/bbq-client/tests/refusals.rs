//! If this fails, one bad frame or a temporary refusal ends a sender for good, or a message that a server never takes blocks all others.

mod support;

use std::time::Instant;

use bbq_client::{Notice, SendError};
use bbq_wire::session::{RefusalCode, encode_ack};
use support::{PATIENCE, Setup};

const TRIED_AGAIN: [RefusalCode; 4] =
    [RefusalCode::Malformed, RefusalCode::Checksum, RefusalCode::Sequence, RefusalCode::HelloExpected];

#[test]
fn what_a_changed_byte_may_cause_is_tried_again() {
    let setup = Setup::new();
    let sender = setup.sender().start().unwrap();
    sender.send(b"message").unwrap();
    for code in TRIED_AGAIN {
        let mut connection = setup.accept();
        connection.hello();
        connection.refuse(code);
        let (mut connection, _) = setup.welcome(0);
        assert_eq!(connection.batch().unwrap().records, [b"message"]);
        connection.refuse(code);
    }
    let mut ack = encode_ack(1);
    ack[20] ^= 1;
    for bytes in [&ack[..], b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let (mut connection, _) = setup.welcome(0);
        connection.batch().unwrap();
        connection.say(bytes);
        connection.left();
    }
    let mut connection = setup.accept();
    connection.say(b"SSH-2.0-OpenSSH_9.2p1\r\n");
    connection.left();
    let (mut connection, _) = setup.welcome(0);
    connection.batch().unwrap();
    connection.ack(1);
    sender.flush(PATIENCE).unwrap();
    assert_eq!(sender.counters().protocol_errors, 2);
}

#[test]
fn what_will_never_be_taken_ends_it() {
    for code in [RefusalCode::Version, RefusalCode::Unknown(4711)] {
        let setup = Setup::new();
        let sender = setup.sender().start().unwrap();
        sender.send(b"message").unwrap();
        let mut connection = setup.accept();
        connection.hello();
        connection.refuse(code);
        let error = sender.flush(PATIENCE).unwrap_err();
        assert!(matches!(&error, SendError::Refused { refusal, .. } if refusal.code == code), "{error}");
    }
}

#[test]
fn a_flush_of_a_refused_sender_fails_even_if_everything_is_acknowledged() {
    let setup = Setup::new();
    let sender = setup.sender().start().unwrap();
    sender.send(b"message").unwrap();
    let (mut connection, _) = setup.welcome(0);
    connection.batch().unwrap();
    connection.ack(1);
    sender.flush(PATIENCE).unwrap();
    connection.refuse(RefusalCode::Version);
    let start = Instant::now();
    let error = loop {
        assert!(start.elapsed() < PATIENCE, "no flush failed");
        if let Err(error) = sender.flush(PATIENCE) {
            break error;
        }
    };
    assert!(
        matches!(&error, SendError::Refused { refusal, .. } if refusal.code == RefusalCode::Version),
        "{error}"
    );
    let counters = sender.close(PATIENCE).unwrap();
    assert_eq!((counters.acknowledged, counters.dropped.total()), (1, 0), "{counters:?}");
    sender.flush(PATIENCE).unwrap_err();
}

#[test]
fn a_person_who_waits_is_told_when_it_lasts() {
    let setup = Setup::new();
    let sender = setup.sender().end_on_lasting_errors(true).start().unwrap();
    sender.send(b"message").unwrap();
    for _ in 0..3 {
        let (mut connection, _) = setup.welcome(0);
        connection.batch().unwrap();
        connection.refuse(RefusalCode::Malformed);
    }
    let error = sender.flush(PATIENCE).unwrap_err();
    assert!(matches!(error, SendError::Refused { .. }), "{error}");
}

#[test]
fn a_message_that_is_refused_for_its_size_goes_alone() {
    for code in [RefusalCode::MessageTooLarge, RefusalCode::BatchTooLarge] {
        let setup = Setup::new();
        let sender = setup.sender().start().unwrap();
        let bytes = |number: u8| if number == 5 { vec![b'x'; 1000] } else { vec![b'0' + number] };
        (0..9).for_each(|number| sender.send(&bytes(number)).unwrap());
        let (mut got, mut last) = (Vec::new(), 0);
        while last < 9 {
            let (mut connection, _) = setup.welcome(last);
            while let Some(batch) = connection.batch() {
                if batch.records.iter().any(|record| record.len() == 1000) {
                    connection.refuse(code);
                    break;
                }
                last = batch.header.last_sequence();
                got.extend(batch.records);
                connection.ack(last);
                if last == 9 {
                    break;
                }
            }
        }
        sender.flush(PATIENCE).unwrap();
        assert_eq!(got, [0, 1, 2, 3, 4, 6, 7, 8].map(bytes));
        let counters = sender.counters();
        assert_eq!((counters.acknowledged, counters.dropped.abandoned), (8, 1), "{counters:?}");
        let notices = setup.notices();
        assert!(
            notices.iter().any(|notice| matches!(notice, Notice::Lost { records: 1, .. })),
            "{notices:?}"
        );
        let names_its_server_twice = |notice: &Notice| match notice {
            Notice::Lost { server, why, .. } | Notice::Unreachable { server, why } => why.contains(server),
            _ => false,
        };
        assert!(!notices.iter().any(names_its_server_twice), "{notices:?}");
    }
}

#[test]
fn batches_are_no_larger_than_a_server_takes() {
    let setup = Setup::new();
    let sender = setup.sender().start().unwrap();
    (0..100).for_each(|_| sender.send(&[b'm'; 100]).unwrap());
    sender.send(&[b'x'; 1000]).unwrap();
    let mut connection = setup.accept();
    connection.hello();
    connection.welcome_with(0, |welcome| welcome.body_bytes_max = 500);
    let (mut got, mut last) = (0, 0);
    while last < 100 {
        let batch = connection.batch().unwrap();
        assert!(batch.bytes.len() <= 64 + 500, "{}", batch.bytes.len());
        got += batch.records.len();
        last = batch.header.last_sequence();
        connection.ack(last);
    }
    assert_eq!(got, 100);
    sender.flush(PATIENCE).unwrap();
    assert_eq!(sender.counters().dropped.abandoned, 1);
}
