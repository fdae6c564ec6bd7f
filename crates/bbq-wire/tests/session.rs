//! The session between two ends. If these fail, clients and servers misread each other, or a stranger's bytes can hold
//! more of the server than its limits say.

use bbq_wire::batch::{BatchIdentity, BatchLimits, crc32c};
use bbq_wire::limits::{CONTROL_HEADER_BYTES, CONTROL_PAYLOAD_BYTES_MAX};
use bbq_wire::session::{ClientSession, ClientStep, ServerSession, ServerStep, UnsureNumbers, encode_ack};
use bbq_wire::{
    AckLevel, Batch, BatchBuilder, BatchError, Compression, Hello, Progress, Refusal, RefusalCode,
    SessionError, SourceKind, Span, StreamId, Token, Welcome,
};
use proptest::prelude::*;

const LIMITS: BatchLimits = BatchLimits { body_bytes_max: 64 * 1024, message_bytes_max: 8 * 1024 };
const STREAM: StreamId = StreamId(*b"a stream's name.");

fn hello() -> Hello {
    Hello {
        stream: STREAM,
        ack: AckLevel::Durable,
        client: "till-4".into(),
        epoch: 0,
        relays: false,
        token: None,
        progress: None,
    }
}

fn welcome() -> Welcome {
    Welcome {
        last_sequence: 41,
        ack: AckLevel::Durable,
        forgotten: true,
        highest: Some(43),
        body_bytes_max: LIMITS.body_bytes_max,
        message_bytes_max: LIMITS.message_bytes_max,
        server: "bbq".into(),
    }
}

fn hello_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    hello().encode(&mut bytes);
    bytes
}

#[expect(clippy::expect_used, reason = "a test's own batch has records")]
fn batch_of(stream: StreamId, first_sequence: u64, records: &[Vec<u8>]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for record in records {
        builder.push(record);
    }
    let identity = BatchIdentity {
        stream,
        first_sequence,
        base_time_ns: 7,
        source: SourceKind::Bbq,
        compression: Compression::None,
    };
    builder.finish(&identity).expect("not empty").to_vec()
}

/// A control frame with a right checksum, whatever it says.
fn frame(kind: u8, version: u8, reserved: u16, payload: &[u8]) -> Vec<u8> {
    let mut behind_crc = (payload.len() as u32).to_le_bytes().to_vec();
    behind_crc.extend([kind, version]);
    behind_crc.extend(reserved.to_le_bytes());
    behind_crc.extend(payload);
    let mut bytes = b"BBQC".to_vec();
    bytes.extend(crc32c(&behind_crc).to_le_bytes());
    bytes.extend(behind_crc);
    bytes
}

fn greeted() -> ServerSession {
    let mut session = ServerSession::new(LIMITS);
    let bytes = hello_bytes();
    assert!(matches!(session.next(&bytes), Ok(ServerStep::Hello { .. })));
    session
}

/// Feeds `input` in pieces of the given sizes (then the rest at once), as a server's read loop would, and tells the
/// steps. Fails when a step asks for bytes that it did not need, or stops short of those it asked for.
fn server_steps(input: &[u8], pieces: &[usize]) -> Vec<String> {
    let mut session = ServerSession::new(LIMITS);
    let (mut told, mut from, mut to) = (Vec::new(), 0, 0);
    let mut pieces = pieces.iter();
    loop {
        match session.next(&input[from..to]) {
            Ok(ServerStep::NeedMore { at_least }) => {
                assert!(at_least > to - from, "asks for no more than there is");
                assert!(at_least <= 64 + LIMITS.body_bytes_max as usize, "asks for more than the limits");
                if to == input.len() {
                    told.push(format!("rest of {}", to - from));
                    return told;
                }
                to = input.len().min(to + pieces.next().map_or(input.len(), |piece| piece + 1));
            }
            Ok(ServerStep::Hello { hello, consumed }) => {
                told.push(format!("{hello:?}"));
                from += consumed;
            }
            Ok(ServerStep::Batch { bytes, header, consumed }) => {
                assert_eq!(bytes.len(), consumed);
                assert_eq!(bytes, &input[from..from + consumed]);
                told.push(format!("{header:?}"));
                from += consumed;
            }
            Err(refusal) => {
                told.push(format!("{refusal:?}"));
                return told;
            }
        }
    }
}

fn client_steps(input: &[u8], pieces: &[usize]) -> Vec<String> {
    let mut session = ClientSession::new();
    let (mut told, mut from, mut to) = (Vec::new(), 0, 0);
    let mut pieces = pieces.iter();
    loop {
        match session.next(&input[from..to]) {
            Ok(ClientStep::NeedMore { at_least }) => {
                assert!(at_least > to - from, "asks for no more than there is");
                assert!(at_least <= CONTROL_HEADER_BYTES + CONTROL_PAYLOAD_BYTES_MAX as usize);
                if to == input.len() {
                    told.push(format!("rest of {}", to - from));
                    return told;
                }
                to = input.len().min(to + pieces.next().map_or(input.len(), |piece| piece + 1));
            }
            Ok(
                step @ (ClientStep::Welcome { consumed, .. }
                | ClientStep::Ack { consumed, .. }
                | ClientStep::Refused { consumed, .. }),
            ) => {
                told.push(format!("{step:?}"));
                from += consumed;
            }
            Err(error) => {
                told.push(error.to_string());
                return told;
            }
        }
    }
}

#[test]
fn two_ends_understand_each_other() {
    let mut to_server = hello_bytes();
    let batch = batch_of(STREAM, 42, &[b"one".to_vec(), b"two".to_vec()]);
    to_server.extend(&batch);

    let mut server = ServerSession::new(LIMITS);
    let Ok(ServerStep::Hello { hello: heard, consumed }) = server.next(&to_server) else {
        panic!("no hello")
    };
    assert_eq!(heard, hello());
    let Ok(ServerStep::Batch { bytes, header, .. }) = server.next(&to_server[consumed..]) else {
        panic!("no batch")
    };
    assert_eq!(bytes, batch);
    let mut scratch = Vec::new();
    let verified = Batch::verify(bytes, LIMITS, &mut scratch).expect("a batch");
    assert_eq!(verified.records().collect::<Vec<_>>(), [b"one", b"two"]);

    let mut to_client = Vec::new();
    welcome().encode(&mut to_client);
    to_client.extend(encode_ack(header.last_sequence()));
    let refusal = Refusal::new(RefusalCode::ShuttingDown, "the server is shutting down");
    refusal.encode(&mut to_client);

    let mut client = ClientSession::new();
    let Ok(ClientStep::Welcome { welcome: heard, consumed: first }) = client.next(&to_client) else {
        panic!("no welcome")
    };
    assert_eq!(heard, welcome());
    let Ok(ClientStep::Ack { sequence: 43, consumed: second }) = client.next(&to_client[first..]) else {
        panic!("no ack")
    };
    let step = client.next(&to_client[first + second..]).expect("a refusal");
    let consumed = to_client.len() - first - second;
    assert_eq!(step, ClientStep::Refused { refusal, consumed });
}

fn refused(session: &mut ServerSession, input: &[u8]) -> Refusal {
    match session.next(input) {
        Err(refusal) => refusal,
        Ok(step) => panic!("not refused: {step:?}"),
    }
}

fn code_of(session: &mut ServerSession, input: &[u8]) -> RefusalCode {
    refused(session, input).code
}

#[test]
fn a_session_begins_with_a_hello() {
    let fresh = || ServerSession::new(LIMITS);
    let batch = batch_of(STREAM, 1, &[b"x".to_vec()]);
    assert_eq!(code_of(&mut fresh(), &batch), RefusalCode::HelloExpected);
    assert_eq!(code_of(&mut fresh(), &encode_ack(1)), RefusalCode::HelloExpected);
    assert_eq!(code_of(&mut fresh(), b"GET / HTTP/1.1\r\n"), RefusalCode::Malformed);
    assert_eq!(code_of(&mut fresh(), b"GET "), RefusalCode::Malformed, "four bytes are enough to judge");
}

#[test]
fn a_second_hello_is_refused() {
    let refusal = refused(&mut greeted(), &hello_bytes());
    assert_eq!(refusal.code, RefusalCode::Malformed);
    assert!(refusal.text.contains("second hello"), "{refusal}");
}

#[test]
fn a_client_sends_no_server_frames() {
    assert_eq!(code_of(&mut greeted(), &encode_ack(1)), RefusalCode::Malformed);
}

#[test]
fn a_batch_of_another_stream_is_refused() {
    let refusal = refused(&mut greeted(), &batch_of(StreamId([1; 16]), 1, &[b"x".to_vec()]));
    assert_eq!(refusal.code, RefusalCode::Malformed);
    assert!(refusal.text.contains("01010101"), "{refusal}");
}

#[test]
fn a_body_over_the_limit_is_refused_from_its_header_alone() {
    let batch = batch_of(STREAM, 1, &[vec![0; LIMITS.body_bytes_max as usize]]);
    let refusal = refused(&mut greeted(), &batch[..64]);
    assert_eq!(refusal.code, RefusalCode::BatchTooLarge);
    assert!(!refusal.retry);
    assert!(refusal.text.contains("65536"), "{refusal}");

    // So is one that would only be too large once decompressed, and one over the format's own limit.
    let mut header = batch[..64].to_vec();
    header[8..12].copy_from_slice(&100u32.to_le_bytes());
    header[13] = 1;
    assert_eq!(code_of(&mut greeted(), &header), RefusalCode::BatchTooLarge);
    header[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(code_of(&mut greeted(), &header), RefusalCode::BatchTooLarge);
}

#[test]
fn a_frame_over_the_limit_is_refused_from_its_header_alone() {
    let mut bytes = frame(1, 1, 0, &[]);
    bytes[8..12].copy_from_slice(&(CONTROL_PAYLOAD_BYTES_MAX + 1).to_le_bytes());
    assert_eq!(code_of(&mut ServerSession::new(LIMITS), &bytes), RefusalCode::Malformed);
    bytes[8..12].copy_from_slice(&CONTROL_PAYLOAD_BYTES_MAX.to_le_bytes());
    let step = ServerSession::new(LIMITS).next(&bytes).expect("room for it");
    assert!(matches!(step, ServerStep::NeedMore { at_least: 4112 }), "{step:?}");
}

#[test]
fn what_a_later_version_may_do() {
    let payload = &hello_bytes()[CONTROL_HEADER_BYTES..];
    let with = |at: usize, value: u8| {
        let mut changed = payload.to_vec();
        changed[at] = value;
        code_of(&mut ServerSession::new(LIMITS), &frame(1, 1, 0, &changed))
    };
    let fresh = || ServerSession::new(LIMITS);
    // More fields at the end are ignored. The first of them are the epoch, the token and the progress, which not every client
    // writes.
    let known = b"\x02\x01\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01fields of another time";
    let progress = Some(Progress { done: 7, is_kept: true });
    for (more, epoch, progress) in [(&b"bytes"[..], 0, None), (known, 258, progress)] {
        let longer = frame(1, 1, 0, &[payload, more].concat());
        let step = fresh().next(&longer).map(|step| format!("{step:?}"));
        let wanted =
            ServerStep::Hello { hello: Hello { epoch, progress, ..hello() }, consumed: longer.len() };
        assert_eq!(step, Ok(format!("{wanted:?}")));
    }
    // What must be understood is refused.
    assert_eq!(code_of(&mut fresh(), &frame(1, 2, 0, payload)), RefusalCode::Version);
    assert_eq!(code_of(&mut fresh(), &frame(5, 1, 0, payload)), RefusalCode::Version);
    assert_eq!(code_of(&mut greeted(), &frame(5, 1, 0, payload)), RefusalCode::Version);
    assert_eq!(with(17, 2), RefusalCode::Version);
    assert_eq!(code_of(&mut fresh(), &frame(1, 1, 1, payload)), RefusalCode::Malformed);
    assert_eq!(with(18, 1), RefusalCode::Malformed);
    assert_eq!(with(16, 4), RefusalCode::Malformed);
    // A batch of another version, in the same words.
    let mut batch = batch_of(STREAM, 1, &[b"x".to_vec()]);
    batch[12] = 2;
    assert_eq!(code_of(&mut greeted(), &batch), RefusalCode::Version);
}

#[test]
fn a_hello_cut_short_is_refused() {
    let payload = &hello_bytes()[CONTROL_HEADER_BYTES..];
    for bytes in 0..payload.len() {
        let refusal = refused(&mut ServerSession::new(LIMITS), &frame(1, 1, 0, &payload[..bytes]));
        assert_eq!(refusal.code, RefusalCode::Malformed, "{bytes}");
        assert!(refusal.text.contains("cut short"), "{refusal}");
    }
}

#[test]
fn a_token_comes_back_is_not_shown_and_a_wrong_one_is_refused() {
    let token = Token::new("open-sesame-12345").unwrap();
    let mut bytes = Vec::new();
    Hello { token: Some(token.clone()), ..hello() }.encode(&mut bytes);
    let Ok(ServerStep::Hello { hello: heard, .. }) = ServerSession::new(LIMITS).next(&bytes) else {
        panic!()
    };
    assert_eq!(heard.token, Some(token));
    assert!(!format!("{heard:?}").contains("sesame"));
    for text in [
        "short",
        "a space in the middle",
        "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
        &"x".repeat(513),
    ] {
        assert_eq!(Token::new(text), None);
        let more = [&[0; 8][..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
        let payload = [&hello_bytes()[CONTROL_HEADER_BYTES..], &more].concat();
        let refusal = refused(&mut ServerSession::new(LIMITS), &frame(1, 1, 0, &payload));
        assert_eq!(refusal.code, RefusalCode::Malformed);
        assert!(refusal.text.contains("16 to 512") && !refusal.text.contains(text), "{refusal}");
    }
    let cut = [&hello_bytes()[CONTROL_HEADER_BYTES..], &[0; 8], &[20, 0], b"only this"].concat();
    let refusal = refused(&mut ServerSession::new(LIMITS), &frame(1, 1, 0, &cut));
    assert!(refusal.text.contains("ends inside token"), "{refusal}");
}

#[test]
fn a_client_follows_the_order_of_a_session() {
    let mut welcome_bytes = Vec::new();
    welcome().encode(&mut welcome_bytes);
    let mut refusal_bytes = Vec::new();
    Refusal::new(RefusalCode::Busy, "full").encode(&mut refusal_bytes);
    let unexpected = |sent: &[&[u8]]| {
        let input = sent.concat();
        client_steps(&input, &[]).last().is_some_and(|last| last.contains("expected"))
    };
    assert!(unexpected(&[&encode_ack(1)]), "an ack before the welcome");
    assert!(unexpected(&[&welcome_bytes, &welcome_bytes]));
    assert!(unexpected(&[&welcome_bytes, &hello_bytes()]));
    assert!(unexpected(&[b"BBQB"]));
    assert!(unexpected(&[&welcome_bytes, &refusal_bytes, &encode_ack(1)]), "an ack after the last words");
    assert!(unexpected(&[&refusal_bytes, &welcome_bytes]));
    assert!(!unexpected(&[&refusal_bytes]), "a refusal instead of the welcome");
    assert!(!unexpected(&[&welcome_bytes, &encode_ack(9), &encode_ack(9), &refusal_bytes]));
    assert_eq!(
        ClientSession::new().next(b"HTTP/1.1 400"),
        Err(SessionError::Magic { found: *b"HTTP" }),
        "another server"
    );
}

#[test]
fn refusal_codes_keep_their_numbers() {
    for number in 0..=u16::MAX {
        let code = RefusalCode::of(number);
        assert_eq!(code.number(), number);
        assert_eq!(matches!(code, RefusalCode::Unknown(_)), !(1..=12).contains(&number));
        assert_eq!(code.is_temporary(), (7..=9).contains(&number));
    }
    assert_eq!(RefusalCode::of(77).to_string(), "code 77");
    assert_eq!(RefusalCode::of(7).to_string(), "busy");
}

#[test]
fn batch_errors_become_refusals_that_name_the_cause() {
    let records = [vec![b'x'; 9000]];
    let batch = batch_of(STREAM, 1, &records);
    let mut scratch = Vec::new();
    let error = Batch::verify(&batch, LIMITS, &mut scratch).expect_err("over the limit");
    let refusal = Refusal::from(error);
    assert_eq!(refusal.code, RefusalCode::MessageTooLarge);
    assert_eq!(refusal.to_string(), "message of 9000 bytes is over the limit of 8192");

    let checksum = Refusal::from(BatchError::Checksum { found: 1, computed: 2 });
    assert_eq!((checksum.code, checksum.retry), (RefusalCode::Checksum, false));
    assert_eq!(Refusal::from(BatchError::Attributes).code, RefusalCode::Malformed);
}

#[test]
fn names_and_texts_are_cut_between_characters() {
    let mut bytes = Vec::new();
    Hello { client: "€".repeat(100), ..hello() }.encode(&mut bytes);
    let Ok(ServerStep::Hello { hello, .. }) = ServerSession::new(LIMITS).next(&bytes) else { panic!() };
    assert_eq!(hello.client, "€".repeat(85));

    bytes.clear();
    Refusal::new(RefusalCode::Busy, "€".repeat(2000)).encode(&mut bytes);
    let Ok(ClientStep::Refused { refusal, .. }) = ClientSession::new().next(&bytes) else { panic!() };
    assert_eq!(refusal.text, "€".repeat(341));
}

/// Bytes that get past the first checks more often than chance lets them.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        (any::<u8>(), 0u8..3, proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(kind, version, payload)| frame(kind % 6, version, 0, &payload)),
        Just(hello_bytes()),
        Just(b"BBQB".to_vec()),
        Just(batch_of(STREAM, 1, &[b"x".to_vec()])),
        Just({
            let mut bytes = Vec::new();
            welcome().encode(&mut bytes);
            bytes
        }),
        any::<u64>().prop_map(|sequence| encode_ack(sequence).to_vec()),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn pieces_do_not_change_the_steps(
        batches in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..5), 0..5),
        pieces in proptest::collection::vec(0usize..100, 0..40),
    ) {
        let mut input = hello_bytes();
        let mut sequence = 1;
        for records in &batches {
            input.extend(batch_of(STREAM, sequence, records));
            sequence += records.len() as u64;
        }
        let whole = server_steps(&input, &[]);
        prop_assert_eq!(whole.len(), batches.len() + 2);
        prop_assert_eq!(&whole, &server_steps(&input, &pieces));
        prop_assert_eq!(&whole, &server_steps(&input, &vec![0; input.len()]));
    }

    #[test]
    fn strange_bytes_are_the_same_strange_bytes_in_any_pieces(
        input in hostile(),
        pieces in proptest::collection::vec(0usize..40, 0..20),
    ) {
        prop_assert_eq!(server_steps(&input, &[]), server_steps(&input, &pieces));
        prop_assert_eq!(client_steps(&input, &[]), client_steps(&input, &pieces));
    }

    #[test]
    fn every_flipped_bit_of_a_control_frame_is_noticed(bit in 0usize..8 * 24) {
        let mut bytes = encode_ack(0x0123_4567_89ab_cdef);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut welcome_bytes = Vec::new();
        welcome().encode(&mut welcome_bytes);
        let mut client = ClientSession::new();
        prop_assert!(client.next(&welcome_bytes).is_ok());
        let step = client.next(&bytes);
        prop_assert!(!matches!(step, Ok(ClientStep::Ack { .. })), "{:?}", step);
    }

    #[test]
    fn what_is_encoded_comes_back(
        stream in any::<[u8; 16]>(), level in 0usize..3, name in "[\\p{L}\\p{N}\\p{P}\\p{S} ]{0,60}", relays in any::<bool>(),
        last_sequence in any::<u64>(), epoch in any::<u64>(), limits in any::<(u32, u32)>(), code in any::<u16>(), retry in any::<bool>(),
        done in any::<Option<(u64, bool)>>(), highest in any::<Option<u64>>(),
    ) {
        let ack = [AckLevel::None, AckLevel::Received, AckLevel::Durable][level];
        let progress = done.map(|(done, is_kept)| Progress { done, is_kept });
        let hello = Hello { stream: StreamId(stream), ack, client: name.clone(), epoch, relays, token: None, progress };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        let told = server_steps(&bytes, &[]);
        prop_assert_eq!(&told[0], &format!("{hello:?}"));

        let welcome = Welcome {
            last_sequence, ack, forgotten: relays, highest, body_bytes_max: limits.0, message_bytes_max: limits.1, server: name.clone(),
        };
        let unsure = highest.filter(|first| *first > 0).map(|first| UnsureNumbers {
            stream: StreamId(stream),
            numbers: Span { first, last: u64::MAX },
        });
        let refusal = Refusal { code: RefusalCode::of(code), retry, text: name, unsure };
        bytes.clear();
        welcome.encode(&mut bytes);
        let first = bytes.len();
        refusal.encode(&mut bytes);
        let mut client = ClientSession::new();
        prop_assert_eq!(client.next(&bytes), Ok(ClientStep::Welcome { welcome, consumed: first }));
        let consumed = bytes.len() - first;
        prop_assert_eq!(client.next(&bytes[first..]), Ok(ClientStep::Refused { refusal, consumed }));
    }
}

/// What a server says when it refuses goes into the log of its client, and to a terminal.
#[test]
fn texts_of_the_peer_are_shown_and_not_obeyed() {
    let text = "no\u{1b}[2J\r\n2026 INFO forged\u{202e}".to_owned();
    let mut bytes = Vec::new();
    Refusal::new(RefusalCode::ShuttingDown, text).encode(&mut bytes);
    let Ok(ClientStep::Refused { refusal, .. }) = ClientSession::new().next(&bytes) else {
        panic!("a refusal")
    };
    assert_eq!(refusal.to_string(), r"no\u{1b}[2J\r\n2026 INFO forged\u{202e}");
}
