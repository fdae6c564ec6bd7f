//! If this fails, a sender believes a server that has forgotten what it acknowledged, or that knows more than it was ever sent:
//! messages are lost without a word, or stored twice.

mod support;

use std::time::Duration;

use bbq_client::{AckLevel, Notice, SendError};
use support::{PATIENCE, Setup, acknowledged};

fn new_streams(setup: &Setup) -> Vec<String> {
    let why = |notice| if let Notice::NewStream { why, .. } = notice { Some(why) } else { None };
    setup.notices().into_iter().filter_map(why).collect()
}

#[test]
fn what_a_server_forgot_is_told_and_the_rest_goes_on_as_a_new_stream() {
    let setup = Setup::new();
    let sender = setup.sender().start().unwrap();
    (0..10).for_each(|number| sender.send(&[b'0' + number]).unwrap());
    let (mut connection, first) = setup.welcome(0);
    while connection.batch().unwrap().header.last_sequence() < 10 {}
    // Up to 6; the rest has arrived and was not acknowledged.
    connection.ack(6);
    acknowledged(&sender, 6);
    drop(connection);
    let (connection, again) = setup.welcome(2);
    assert_eq!(again.stream, first.stream);
    connection.left();
    let (mut connection, second) = setup.welcome(0);
    assert_ne!(second.stream, first.stream);
    let (mut next, mut records) = (1, Vec::new());
    while next < 5 {
        let batch = connection.batch().unwrap();
        assert_eq!((batch.header.stream, batch.header.first_sequence), (second.stream, next));
        next = batch.header.last_sequence() + 1;
        records.extend(batch.records.concat());
    }
    assert_eq!(records, b"6789");
    connection.ack(4);
    sender.flush(PATIENCE).unwrap();
    assert_eq!(sender.servers()[0].acknowledged_sequence, 10);
    let lost: Vec<Notice> =
        setup.notices().into_iter().filter(|notice| matches!(notice, Notice::Lost { .. })).collect();
    assert!(matches!(&lost[..], [Notice::Lost { records: 4, .. }]), "{lost:?}");
    assert_eq!(new_streams(&setup).len(), 1);
}

#[test]
fn a_number_that_was_never_sent_is_another_senders() {
    let setup = Setup::new();
    let sender = setup.sender().start().unwrap();
    // Queued, and not sent.
    (0..10).for_each(|_| sender.send(b"message").unwrap());
    let (connection, first) = setup.welcome(5);
    connection.left();
    let (mut connection, second) = setup.welcome(0);
    assert_ne!(second.stream, first.stream);
    let mut got = 0;
    while got < 10 {
        got += connection.batch().unwrap().records.len();
    }
    connection.ack(10);
    sender.flush(PATIENCE).unwrap();
    let told = new_streams(&setup);
    assert!(told.len() == 1 && told[0].contains("never sent"), "{told:?}");
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_counted_and_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    for spooled in [false, true] {
        let setup = Setup::new();
        let mut builder = setup.sender();
        if spooled {
            builder = builder.spool(directory.path());
        }
        let sender = builder.clone().start().unwrap();
        sender.send(b"one").unwrap();
        let (mut connection, hello) = setup.welcome(0);
        assert_eq!(connection.batch().unwrap().header.last_sequence(), 1);
        connection.ack(1_000_000);
        connection.left();
        let (mut connection, again) = setup.welcome(0);
        assert_eq!(
            (again.stream, connection.batch().unwrap().records),
            (hello.stream, vec![b"one".to_vec()])
        );
        let counters = sender.counters();
        assert_eq!((counters.protocol_errors, counters.acknowledged), (1, 0), "{counters:?}");
        assert_eq!(sender.servers()[0].acknowledged_sequence, 0);
        drop(sender);
        if spooled {
            let sender = builder.start().unwrap();
            assert_eq!((sender.counters().recovered, sender.last_sequence()), (1, 1));
        }
    }
}

#[test]
fn a_second_server_need_not_know_what_the_first_one_has() {
    let (first, second) = (Setup::new(), Setup::new());
    let other = second.listener.local_addr().unwrap().to_string().parse().unwrap();
    let sender = first.sender().server(other).start().unwrap();
    sender.send(b"one").unwrap();
    let (mut connection, hello) = first.welcome(0);
    connection.batch().unwrap();
    connection.ack(1);
    sender.flush(PATIENCE).unwrap();
    drop((connection, first.listener));
    sender.send(b"two").unwrap();
    let mut connection = second.accept();
    assert_eq!(connection.hello().stream, hello.stream);
    connection.welcome(0);
    assert_eq!(connection.batch().unwrap().header.first_sequence, 2);
    connection.ack(2);
    sender.flush(PATIENCE).unwrap();
}

/// The first server has everything. If the second one forgets something later, the application is told.
#[test]
fn a_server_that_takes_over_a_spool_need_not_know_what_the_one_before_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (Setup::new(), Setup::new());
    let deliver = |setup: &Setup, knows: u64, number: u64| {
        let sender = setup.sender().spool(directory.path()).start().unwrap();
        sender.send(b"message").unwrap();
        let (mut connection, hello) = setup.welcome(knows);
        assert_eq!(connection.batch().unwrap().header.first_sequence, number);
        connection.ack(number);
        sender.flush(PATIENCE).unwrap();
        hello.stream
    };
    let stream = deliver(&first, 0, 1);
    assert_eq!((deliver(&second, 0, 2), deliver(&second, 2, 3)), (stream, stream));
    assert!(
        second.notices().iter().all(|notice| !matches!(notice, Notice::Lost { .. })),
        "{:?}",
        second.notices()
    );

    let sender = second.sender().spool(directory.path()).start().unwrap();
    sender.send(b"message").unwrap();
    second.welcome(2).0.left();
    let (mut connection, hello) = second.welcome(0);
    assert_ne!(hello.stream, stream);
    connection.batch().unwrap();
    connection.ack(1);
    sender.flush(PATIENCE).unwrap();
    assert!(
        second.notices().iter().any(|notice| matches!(notice, Notice::Lost { records: 1, .. })),
        "{:?}",
        second.notices()
    );
}

#[test]
fn less_than_was_wanted_is_not_taken_for_it() {
    let setup = Setup::new();
    let sender = setup.sender().start().unwrap();
    sender.send(b"one").unwrap();
    let mut connection = setup.accept();
    connection.hello();
    connection.welcome_with(0, |welcome| welcome.ack = AckLevel::Received);
    connection.left();
    // It may have been configured otherwise meanwhile.
    let (mut connection, _) = setup.welcome(0);
    connection.batch().unwrap();
    connection.ack(1);
    sender.flush(PATIENCE).unwrap();

    let setup = Setup::new();
    let sender = setup.sender().end_on_lasting_errors(true).start().unwrap();
    sender.send(b"one").unwrap();
    let mut connection = setup.accept();
    connection.hello();
    connection.welcome_with(0, |welcome| welcome.ack = AckLevel::None);
    let error = sender.flush(PATIENCE).unwrap_err();
    assert!(
        matches!(&error, SendError::Protocol { problem, .. } if problem.contains("level None")),
        "{error}"
    );
}

/// The stream that the spool's records were numbered in is drained first; what came in after the doubt has another one.
#[test]
fn a_spool_with_two_streams_sends_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup::new();
    let builder = setup.sender().spool(directory.path());
    let sender = builder.clone().start().unwrap();
    (0..4).for_each(|number| sender.send(&[b'0' + number]).unwrap());
    let mut connection = setup.accept();
    let old = connection.hello().stream;
    sender.close(Duration::ZERO).unwrap_err();
    drop(connection);
    // Where they stand is lost.
    std::fs::remove_file(directory.path().join("acknowledged")).unwrap();
    let sender = builder.start().unwrap();
    (4..6).for_each(|number| sender.send(&[b'0' + number]).unwrap());
    assert_eq!(sender.last_sequence(), 6);
    let (mut connection, hello) = setup.welcome(1);
    let batch = connection.batch().unwrap();
    assert_eq!(
        (hello.stream, batch.header.first_sequence, batch.records.concat()),
        (old, 2, b"123".to_vec())
    );
    connection.ack(4);
    connection.left();

    let (mut connection, hello) = setup.welcome(0);
    assert_ne!(hello.stream, old);
    let mut records = Vec::new();
    while records.len() < 2 {
        records.extend(connection.batch().unwrap().records.concat());
    }
    assert_eq!(records, b"45");
    connection.ack(2);
    sender.flush(PATIENCE).unwrap();
    assert_eq!(new_streams(&setup).len(), 1);
}

/// A spool that was set back to an older copy gets messages while no server is there. A server knows their numbers from the time after the
/// copy, and none of the messages.
#[test]
fn a_number_that_is_only_queued_is_another_senders_after_a_restart_too() {
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup::new();
    let sender = setup.sender().spool(directory.path()).start().unwrap();
    sender.send(b"sent").unwrap();
    let (mut connection, first) = setup.welcome(0);
    connection.batch().unwrap();
    connection.ack(1);
    sender.flush(PATIENCE).unwrap();
    drop((connection, sender));
    let builder = setup.sender().spool(directory.path()).close_timeout(Duration::ZERO);
    let sender = builder.clone().start().unwrap();
    (0..10).for_each(|number| sender.send(&[b'0' + number]).unwrap());
    drop(sender);
    let sender = builder.start().unwrap();
    // The connection of the life before may have come first.
    let second = loop {
        let mut connection = setup.accept();
        let Some(hello) = connection.hello_if_any() else { continue };
        if hello.stream != first.stream {
            connection.welcome(0);
            let mut records = Vec::new();
            while records.len() < 10 {
                records.extend(connection.batch().unwrap().records.concat());
            }
            assert_eq!(records, b"0123456789");
            connection.ack(10);
            sender.flush(PATIENCE).unwrap();
            break hello;
        }
        connection.welcome(6);
        connection.left();
    };
    assert_ne!(second.stream, first.stream);
}
