//! If this fails, a sender whose stream another one has taken over fights for it without end, or a server cannot tell which of a
//! sender's hellos is the newest.

mod support;

use bbq_client::{Notice, SendError};
use bbq_wire::session::RefusalCode;
use support::{PATIENCE, Setup};

fn is_taken_over(outcome: &Result<(), SendError>) -> bool {
    matches!(outcome, Err(SendError::Refused { refusal, .. }) if refusal.code == RefusalCode::TakenOver)
}

#[test]
fn a_sender_that_was_taken_over_ends() {
    for is_welcome in [false, true] {
        let setup = Setup::new();
        let sender = setup.sender().start().unwrap();
        sender.send(b"message").unwrap();
        let mut connection = setup.accept();
        connection.hello();
        if is_welcome {
            connection.welcome(0);
        }
        connection.refuse(RefusalCode::TakenOver);
        let outcome = sender.flush(PATIENCE);
        assert!(is_taken_over(&outcome), "{outcome:?}");
    }
}

#[test]
fn each_connection_has_a_higher_epoch_over_restarts_too() {
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup::new();
    let (mut last, mut stream) = (0, None);
    for life in 0..3 {
        let sender = setup.sender().spool(directory.path()).start().unwrap();
        if life == 0 {
            sender.send(b"message").unwrap();
        }
        for _ in 0..5 {
            // The life before may have left a connection on which it said nothing.
            let hello = std::iter::repeat_with(|| setup.accept().hello_if_any()).flatten().next().unwrap();
            assert!(hello.epoch > last, "{} follows {last}", hello.epoch);
            last = hello.epoch;
            assert_eq!(*stream.get_or_insert(hello.stream), hello.stream);
        }
    }
}

/// As after a power failure that lost the file, on a machine whose clock starts again.
#[test]
fn a_sender_that_forgot_its_epoch_goes_on_with_a_new_stream() {
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup::new();
    let sender = setup.sender().spool(directory.path()).start().unwrap();
    sender.send(b"message").unwrap();
    let mut connection = setup.accept();
    let first = connection.hello();
    connection.refuse(RefusalCode::TakenOver);
    let (mut connection, second) = setup.welcome(0);
    assert_ne!(second.stream, first.stream);
    let batch = connection.batch().unwrap();
    assert_eq!((batch.header.stream, batch.header.first_sequence), (second.stream, 1));
    connection.ack(1);
    sender.flush(PATIENCE).unwrap();
    let notices = setup.notices();
    assert!(notices.iter().any(|notice| matches!(notice, Notice::NewStream { .. })), "{notices:?}");
}

/// Another sender runs on a copy of the spool. It has the stream, and not the one that this sender begins. A server that refuses that one,
/// too, has another reason.
#[test]
fn a_sender_whose_spool_was_copied_goes_on_with_a_new_stream() {
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup::new();
    let sender = setup.sender().spool(directory.path()).start().unwrap();
    sender.send(b"one").unwrap();
    let (mut connection, first) = setup.welcome(0);
    connection.batch().unwrap();
    connection.ack(1);
    sender.flush(PATIENCE).unwrap();
    sender.send(b"two").unwrap();
    connection.batch().unwrap();
    connection.refuse(RefusalCode::TakenOver);
    let (mut connection, second) = setup.welcome(0);
    assert_ne!(second.stream, first.stream);
    assert_eq!(connection.batch().unwrap().records, vec![b"two".to_vec()]);
    connection.refuse(RefusalCode::TakenOver);
    let (connection, third) = setup.welcome(0);
    assert_ne!(third.stream, second.stream);
    connection.refuse(RefusalCode::TakenOver);
    let outcome = sender.flush(PATIENCE);
    assert!(is_taken_over(&outcome), "{outcome:?}");
}
