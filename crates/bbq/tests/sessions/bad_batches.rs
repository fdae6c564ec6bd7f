//! If this fails, a broken or hostile sender can store bad batches, harm the sessions of others, or is refused without a reason; or
//! messages that are sent again are doubled or lost.

use std::collections::BTreeMap;

use crate::support::session::{
    Answer, Session, batch, batch_of, finish, hello, hello_with_progress, sealed, stream_id, with_bytes,
};
use crate::support::{Server, Setup, assert_balanced};
use bbq_wire::{BatchBuilder, Compression, RefusalCode, SourceKind, StreamId};

const LISTEN: &str = "bbq+tcp://127.0.0.1:{0}?message_bytes_max=1KiB";
/// Offsets in the header of a batch (docs/protocol/batch.md).
const VERSION: usize = 12;
const COMPRESSION: usize = 13;
const RESERVED: usize = 15;
const FIRST_SEQUENCE: usize = 32;
const RECORDS: usize = 48;
const RAW_BYTES: usize = 52;
const BODY: usize = 64;
/// And in that of a control frame.
const CONTROL_VERSION: usize = 13;
/// The sessions under test; the witness has another stream.
const BAD: u8 = 1;
const WITNESS: u8 = 2;

/// The place of the bad bytes.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// At the beginning of the connection.
    First,
    /// Behind hello and welcome.
    Session,
}

fn good() -> Vec<u8> {
    batch(stream_id(BAD), 1, &["never", "stored"])
}

/// A good batch with a field changed, and the checksum made right.
fn with_field(at: usize, bytes: &[u8]) -> Vec<u8> {
    sealed(with_bytes(good(), at, bytes))
}

fn compressed() -> Vec<u8> {
    batch_of(stream_id(BAD), 1, &["a".repeat(1000)], SourceKind::Bbq, Compression::Lz4)
}

fn u32_bytes(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

/// The bytes that are sent, and the code of the refusal. Each connection ends after its bytes.
fn cases() -> Vec<(&'static str, At, Vec<u8>, RefusalCode)> {
    use RefusalCode::{BatchTooLarge, Checksum, HelloExpected, Malformed, MessageTooLarge, Version};
    let truncated = |bytes: usize| good()[..bytes].to_vec();
    let lz4_body = |raw: u32, byte: u8| {
        let mangled = with_bytes(compressed(), RAW_BYTES, &u32_bytes(raw));
        sealed(with_bytes(with_bytes(mangled, RAW_BYTES + 4, &u32_bytes(raw)), BODY, &[byte]))
    };
    let mut wrong_hello = hello(stream_id(BAD));
    wrong_hello[CONTROL_VERSION] = 2;
    let mut wide = good();
    wide.extend_from_slice(b"garbage behind a batch that is right");
    vec![
        ("another protocol", At::First, b"GET / HTTP/1.1\r\n\r\n".to_vec(), Malformed),
        ("a batch before the hello", At::First, good(), HelloExpected),
        ("a hello of another version", At::First, sealed(wrong_hello), Version),
        ("a damaged hello", At::First, with_bytes(hello(stream_id(BAD)), 20, &[0xff]), Checksum),
        ("half a hello", At::First, hello(stream_id(BAD))[..20].to_vec(), Malformed),
        ("garbage", At::Session, vec![0x5a; 4096], Malformed),
        ("a few bytes", At::Session, b"BB".to_vec(), Malformed),
        ("half a header", At::Session, truncated(40), Malformed),
        ("half a body", At::Session, truncated(BODY + 3), Malformed),
        ("a flipped byte", At::Session, with_bytes(good(), BODY + 2, b"X"), Checksum),
        ("another version", At::Session, with_field(VERSION, &[2]), Version),
        ("an unknown compression", At::Session, with_field(COMPRESSION, &[9]), Malformed),
        ("a reserved field", At::Session, with_field(RESERVED, &[1]), Malformed),
        ("a second hello", At::Session, hello(stream_id(BAD)), Malformed),
        ("another stream", At::Session, batch(stream_id(9), 1, &["foreign"]), Malformed),
        ("number 0", At::Session, with_field(FIRST_SEQUENCE, &0u64.to_le_bytes()), Malformed),
        ("numbers past 64 bits", At::Session, with_field(FIRST_SEQUENCE, &u64::MAX.to_le_bytes()), Malformed),
        ("no records", At::Session, with_field(RECORDS, &u32_bytes(0)), Malformed),
        ("fewer records than it says", At::Session, with_field(RECORDS, &u32_bytes(3)), Malformed),
        ("more records than it says", At::Session, with_field(RECORDS, &u32_bytes(1)), Malformed),
        ("a record past the body", At::Session, with_field(BODY, &[100]), Malformed),
        ("a message too large", At::Session, batch(stream_id(BAD), 1, &["x".repeat(1025)]), MessageTooLarge),
        ("a batch too large", At::Session, with_field(8, &u32_bytes(16 * 1024 * 1024 + 1)), BatchTooLarge),
        ("lz4 that is none", At::Session, lz4_body(1002, 0xff), Malformed),
        ("lz4 that grows", At::Session, lz4_body(900, 0x1f), Malformed),
        ("lz4 that is a bomb by its header", At::Session, lz4_body(16 * 1024 * 1024, 0x1f), Malformed),
    ]
}

fn refused(server: &Server<'_>, what: &str, at: At, bytes: &[u8]) -> bbq_wire::Refusal {
    let address = server.setup.address(0);
    let mut session = match at {
        At::First => Session::connect(address),
        At::Session => Session::open(address, stream_id(BAD)).0,
    };
    session.write(bytes);
    session.end();
    session.refused(what)
}

#[test]
fn every_kind_of_bad_batch_is_refused_with_its_reason_and_harms_nobody() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let (mut witness, _) = Session::open(setup.address(0), stream_id(WITNESS));
    let cases = cases();
    let mut expected = String::new();
    for (index, (what, at, bytes, code)) in cases.iter().enumerate() {
        let refusal = refused(&server, what, *at, bytes);
        assert_eq!(refusal.code, *code, "{what}: {refusal:?}");
        assert!(!refusal.text.is_empty() && !refusal.retry, "{what}: {refusal:?}");
        let number = index as u64 + 1;
        witness.write(&batch(stream_id(WITNESS), number, &[format!("witness {number}")]));
        witness.acknowledged(number);
        expected.push_str(&format!("witness {number}\n"));
    }
    let status = server.wait_delivered(cases.len() as u64);
    assert_eq!(status["listeners"][0]["ledger"]["refused"], cases.len(), "{status:#}");
    assert_eq!(String::from_utf8_lossy(&setup.written()), expected);
    setup.wait_log("session refused");
}

#[test]
fn whichever_byte_is_flipped_the_batch_is_refused() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let good = good();
    for index in 0..good.len() {
        let flipped = with_bytes(good.clone(), index, &[good[index] ^ 0x10]);
        let refusal = refused(&server, &format!("byte {index}"), At::Session, &flipped);
        assert!(!refusal.text.is_empty(), "byte {index}: {refusal:?}");
    }
    let status = server.status();
    assert_eq!(status["ledger"]["received"], 0, "{status:#}");
    assert_eq!(status["listeners"][0]["ledger"]["refused"], good.len(), "{status:#}");
}

#[test]
fn what_stands_before_the_bad_batch_is_kept_and_acknowledged() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(BAD));
    let mut bytes = batch(stream_id(BAD), 1, &["one", "two"]);
    bytes.extend_from_slice(&with_bytes(batch(stream_id(BAD), 3, &["three"]), BODY, b"!"));
    session.write(&bytes);
    assert_eq!(session.next(), Answer::Ack(2));
    assert_eq!(session.refused("a flipped byte").code, RefusalCode::Checksum);
    assert_eq!(Session::open(setup.address(0), stream_id(BAD)).1, 2);
    server.wait_delivered(2);
    assert_eq!(setup.written(), b"one\ntwo\n");
}

#[test]
fn what_comes_late_is_stored_what_is_known_is_not_and_what_is_given_up_is_known() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let id = stream_id(BAD);
    let (mut session, _) = Session::open(setup.address(0), id);
    session.write(&batch(id, 1, &["1", "2", "3"]));
    session.acknowledged(3);
    // A batch of which a part is known.
    session.write(&batch(id, 3, &["3", "4"]));
    session.acknowledged(4);
    session.write(&batch(id, 10, &["10", "11"]));
    session.acknowledged(11);
    session.write(&batch(id, 6, &["6", "7"]));
    session.write(&batch(id, 5, &["5", "6", "7", "8", "9", "10", "11", "12"]));
    session.acknowledged(12);
    let mut builder = BatchBuilder::new();
    builder.push(b"21");
    builder.set_given_up(3);
    session.write(&finish(builder, id, 21));
    session.acknowledged(21);
    // 13 to 17 may still come, 18 to 20 never.
    session.write(&batch(id, 13, &["13", "14", "15", "16", "17", "18", "19"]));
    assert!(matches!(session.next(), Answer::Ack(_)));
    server.wait_delivered(18);
    server.kill();
    let server = setup.start();
    let (mut session, last) = Session::open(setup.address(0), id);
    assert_eq!(last, 21);
    session.write(&batch(id, 1, &[""; 21]));
    session.acknowledged(21);
    server.wait_delivered(18);
    let mut lines: Vec<u32> =
        String::from_utf8(setup.written()).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (1..=17).chain([21]).collect::<Vec<_>>());
}

/// A client that says where it is, and one of an earlier version, which the server asks for what it was told.
#[test]
fn the_welcome_is_about_what_the_client_needs() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    let id = stream_id(BAD);
    let (mut session, _) = Session::open(setup.address(0), id);
    session.write(&batch(id, 11, &["11", "12"]));
    session.acknowledged(12);
    let welcome = |done| {
        let mut session = Session::connect(setup.address(0));
        session.write(&hello_with_progress(id, done));
        let Answer::Welcome(welcome) = session.next() else { panic!("no welcome") };
        assert!(!welcome.forgotten);
        (welcome.last_sequence, welcome.highest)
    };
    let expected = [(0, Some(12)), (12, Some(12)), (12, Some(12)), (12, Some(12))];
    assert_eq!([Some(5), Some(10), Some(11), Some(40)].map(welcome), expected);
    assert_eq!(welcome(None), (12, Some(12)));
    server.kill();
    let _server = setup.start();
    assert_eq!([Some(5), Some(10), Some(11), Some(40)].map(welcome), expected);
    assert_eq!(welcome(None), (12, Some(12)));
}

/// Three clients that skip half of all numbers.
#[test]
fn a_count_of_skipped_numbers_stays_at_its_end() {
    let setup = Setup::new(&[LISTEN]);
    let server = setup.start();
    for number in 1..=3 {
        let id = stream_id(number);
        let (mut session, _) = Session::open(setup.address(0), id);
        session.write(&batch(id, 1 << 63, &["far"]));
        session.acknowledged(1 << 63);
    }
    let status = server.wait_delivered(3);
    assert_eq!(status["listeners"][0]["ledger"]["skipped"], u64::MAX, "{status:#}");
}

/// `source` says what a batch was made from; a forwarder may send batches of any source.
fn replay(source: SourceKind) {
    let setup = Setup::new(&[LISTEN]);
    let id = stream_id(BAD);
    let bytes = batch_of(id, 1, &["1", "2", "3"], source, Compression::None);
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), id);
    session.write(&bytes);
    session.acknowledged(3);
    session.write(&bytes);
    assert_eq!(session.next(), Answer::Ack(3), "a duplicate is acknowledged again");
    let (mut session, last) = Session::open(setup.address(0), id);
    assert_eq!(last, 3);
    session.write(&bytes);
    assert_eq!(session.next(), Answer::Ack(3), "on another connection, too");
    let status = server.wait_delivered(3);
    assert_eq!(status["listeners"][0]["ledger"]["duplicates"], 6, "{status:#}");
    server.kill();
    let server = setup.start();
    let (mut session, last) = Session::open(setup.address(0), id);
    assert_eq!(last, 3, "{source:?}: known behind a kill, too");
    session.write(&bytes);
    assert_eq!(session.next(), Answer::Ack(3));
    assert_balanced(&server.wait_delivered(3));
    assert_eq!(setup.written(), b"1\n2\n3\n");
}

#[test]
fn a_replayed_batch_is_acknowledged_again_and_stored_once() {
    replay(SourceKind::Bbq);
}

#[test]
fn a_replayed_batch_that_was_forwarded_is_stored_once() {
    replay(SourceKind::Lines);
}

#[test]
fn a_newer_connection_of_a_stream_takes_over() {
    let setup = Setup::new(&[LISTEN]).with(&["--workers", "2"]);
    let server = setup.start();
    let id = stream_id(BAD);
    let (mut older, _) = Session::open(setup.address(0), id);
    older.write(&batch(id, 1, &["1"]));
    older.acknowledged(1);
    let (mut newer, last) = Session::open(setup.address(0), id);
    assert_eq!(last, 1);
    older.write(&batch(id, 2, &["of the older"]));
    assert_eq!(older.refused("taken over").code, RefusalCode::TakenOver);
    newer.write(&batch(id, 2, &["of the newer"]));
    newer.acknowledged(2);
    server.wait_delivered(2);
    assert_eq!(setup.written(), b"1\nof the newer\n");
}

/// Connections that break at any moment, and come back at once, perhaps to another worker.
#[test]
fn reconnecting_before_anything_is_durable_doubles_and_loses_nothing() {
    const ROUNDS: u64 = 150;
    const BATCHES: u64 = 8;
    const MESSAGES: u64 = 5;
    let setup = Setup::new(&[LISTEN]).with(&["--workers", "3"]);
    let server = setup.start();
    let id = stream_id(BAD);
    let mut acknowledged = 0;
    let mut sent = 0;
    for round in 0..ROUNDS {
        let (mut session, last) = Session::open(setup.address(0), id);
        assert!(last >= acknowledged && last <= sent, "{acknowledged} <= {last} <= {sent}");
        sent = last;
        for _ in 0..BATCHES {
            session.write(&numbered(id, sent + 1, MESSAGES));
            sent += MESSAGES;
        }
        acknowledged = last;
        for _ in 0..round % 3 {
            match session.next() {
                Answer::Ack(sequence) => acknowledged = sequence,
                other => panic!("{other:?}"),
            }
            if acknowledged == sent {
                break;
            }
        }
    }
    let (mut session, last) = Session::open(setup.address(0), id);
    session.write(&numbered(id, last + 1, 1));
    session.acknowledged(last + 1);
    server.wait_delivered(last + 1);
    let mut count: BTreeMap<u64, u64> = BTreeMap::new();
    for line in String::from_utf8_lossy(&setup.written()).lines() {
        *count.entry(line.parse().expect("a number")).or_default() += 1;
    }
    let expected: BTreeMap<u64, u64> = (1..=last + 1).map(|number| (number, 1)).collect();
    assert_eq!(count, expected);
}

fn numbered(id: StreamId, first: u64, count: u64) -> Vec<u8> {
    let messages: Vec<String> = (first..first + count).map(|number| number.to_string()).collect();
    batch(id, first, &messages)
}
