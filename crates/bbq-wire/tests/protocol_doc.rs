//! docs/PROTOCOL.md and the pages of docs/protocol say what the code does. If these fail, strangers write clients that do not work.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bbq_wire::batch::{BatchIdentity, BatchLimits, Detail, Output, crc32c};
use bbq_wire::limits;
use bbq_wire::session::{ClientSession, ClientStep, ServerSession, ServerStep, Token, encode_ack};
use bbq_wire::{
    AckLevel, Batch, BatchBuilder, Compression, Hello, Peer, Progress, Refusal, RefusalCode, SourceKind,
    StreamId, Welcome,
};

const DOC: &str = concat!(
    include_str!("../../../docs/PROTOCOL.md"),
    include_str!("../../../docs/protocol/batch.md"),
    include_str!("../../../docs/protocol/sequence.md")
);

const STREAM: StreamId = StreamId([
    0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
]);

/// The bytes of each block that is fenced as "hex NAME"; what follows a # on a line is for people.
fn hex_blocks() -> BTreeMap<&'static str, Vec<u8>> {
    let mut blocks = BTreeMap::new();
    let mut open = None;
    for line in DOC.lines() {
        match (open, line.strip_prefix("```")) {
            (None, Some(fence)) => open = Some(fence.strip_prefix("hex ").unwrap_or_default()),
            (Some(_), Some(_)) => open = None,
            (Some(name), None) => {
                let hex = line.split('#').next().unwrap_or_default();
                let bytes =
                    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap_or_default());
                blocks.entry(name).or_insert_with(Vec::new).extend(bytes);
            }
            (None, None) => {}
        }
    }
    blocks
}

fn hello() -> Hello {
    Hello {
        stream: STREAM,
        ack: AckLevel::Durable,
        client: "till-4".into(),
        epoch: 1_767_225_600_000,
        relays: false,
        token: None,
        progress: None,
    }
}

fn token() -> Option<Token> {
    Token::new("correct-horse-battery")
}

fn progress() -> Option<Progress> {
    Some(Progress { done: 1000, is_kept: true })
}

fn welcome() -> Welcome {
    Welcome {
        last_sequence: 0,
        ack: AckLevel::Durable,
        forgotten: false,
        highest: Some(0),
        body_bytes_max: limits::BATCH_BODY_BYTES_MAX,
        message_bytes_max: limits::MESSAGE_BYTES_DEFAULT,
        server: "bbq 0.1.0".into(),
    }
}

fn refusal() -> Refusal {
    Refusal::new(RefusalCode::ShuttingDown, "the server is shutting down")
}

fn finish(builder: BatchBuilder) -> Vec<u8> {
    finish_from(1, builder)
}

fn finish_from(first_sequence: u64, mut builder: BatchBuilder) -> Vec<u8> {
    let identity = BatchIdentity {
        stream: STREAM,
        first_sequence,
        base_time_ns: 1_767_225_600_000_000_000,
        source: SourceKind::Bbq,
        compression: Compression::None,
    };
    builder.finish(&identity).map(<[u8]>::to_vec).unwrap_or_default()
}

fn batch() -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.push(b"hello");
    builder.push(b"burst queue");
    finish(builder)
}

/// What the code makes of each block's text.
fn encoded() -> BTreeMap<&'static str, Vec<u8>> {
    let encode = |with: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        with(&mut out);
        out
    };
    let mut with_peers = BatchBuilder::new();
    with_peers.push_from(b"hello", Peer::Inet(SocketAddr::from(([192, 0, 2, 1], 514))));
    with_peers.push_from(b"burst queue", Peer::Unnamed);
    let mut with_given_up = BatchBuilder::new();
    with_given_up.push(b"hello");
    with_given_up.push(b"burst queue");
    with_given_up.set_given_up(10);
    let mut with_details = BatchBuilder::new();
    let outputs = [(&b"hello"[..], Output::Stdout), (b"burst queue", Output::Stderr)];
    for ((record, output), time_ns) in outputs.into_iter().zip(1_767_225_600_000_000_000..) {
        with_details.push(record);
        with_details.set_detail(Detail { time_ns, output });
    }
    with_details.set_fields([("k8s.pod.name", "web-0")].into_iter());
    BTreeMap::from([
        ("hello", encode(&|out| hello().encode(out))),
        ("hello-with-token", encode(&|out| Hello { token: token(), ..hello() }.encode(out))),
        ("hello-with-progress", encode(&|out| Hello { progress: progress(), ..hello() }.encode(out))),
        ("welcome", encode(&|out| welcome().encode(out))),
        ("batch", batch()),
        ("ack", encode_ack(2).to_vec()),
        ("refusal", encode(&|out| refusal().encode(out))),
        ("peers", finish(with_peers)),
        ("given-up", finish_from(11, with_given_up)),
        ("details", finish(with_details)),
        ("crc", crc32c(b"123456789").to_le_bytes().to_vec()),
        ("varint", [0, 127, 128, 300, u32::MAX].into_iter().flat_map(varint).collect()),
    ])
}

/// A varint as it stands in a batch: in front of a record, or (too large for one) by the document's own words.
fn varint(value: u32) -> Vec<u8> {
    if value == u32::MAX {
        return vec![0xff, 0xff, 0xff, 0xff, 0x0f];
    }
    let mut builder = BatchBuilder::new();
    builder.push(&vec![0; value as usize]);
    let bytes = finish(builder);
    bytes[limits::BATCH_HEADER_BYTES..bytes.len() - value as usize].to_vec()
}

#[test]
fn every_hex_block_is_what_the_code_encodes() {
    let (said, encoded) = (hex_blocks(), encoded());
    for (name, bytes) in &encoded {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x} ")).collect::<String>();
        let said = said.get(name).map(|said| hex(said));
        assert_eq!(said, Some(hex(bytes)), "block \"hex {name}\" (left: the document, right: the code)");
    }
    // "lz4" is read back below: which form a compressor chooses is not part of the format.
    let unchecked = said.keys().find(|name| !encoded.contains_key(*name) && **name != "lz4");
    assert_eq!(unchecked, None, "a block that nobody checks");
}

#[test]
fn the_example_session_is_understood() {
    let said = hex_blocks();
    let mut server = ServerSession::new(BatchLimits::FORMAT);
    assert!(
        matches!(server.next(&said["hello"]), Ok(ServerStep::Hello { hello: heard, .. }) if heard == hello())
    );
    let mut another = ServerSession::new(BatchLimits::FORMAT);
    let Ok(ServerStep::Hello { hello: heard, .. }) = another.next(&said["hello-with-token"]) else {
        panic!("no hello")
    };
    assert_eq!(heard, Hello { token: token(), ..hello() });
    for name in ["batch", "peers", "lz4"] {
        let Ok(ServerStep::Batch { bytes, .. }) = server.next(&said[name]) else { panic!("{name}") };
        let mut scratch = Vec::new();
        let batch = Batch::verify(bytes, BatchLimits::FORMAT, &mut scratch).expect(name);
        let records: Vec<&[u8]> = batch.records().collect();
        match name {
            "lz4" => assert_eq!(records, [[b'x'; 40]]),
            _ => assert_eq!(records, [&b"hello"[..], b"burst queue"]),
        }
    }
    let mut client = ClientSession::new();
    assert!(
        matches!(client.next(&said["welcome"]), Ok(ClientStep::Welcome { welcome: heard, .. }) if heard == welcome())
    );
    assert!(matches!(client.next(&said["ack"]), Ok(ClientStep::Ack { sequence: 2, .. })));
    assert!(
        matches!(client.next(&said["refusal"]), Ok(ClientStep::Refused { refusal: heard, .. }) if heard == refusal())
    );
}

#[test]
fn the_table_of_refusals_is_complete() {
    for number in 1..=u16::MAX {
        let code = RefusalCode::of(number);
        if matches!(code, RefusalCode::Unknown(_)) {
            assert!(number > 12, "a gap is a retired number: say so in the document, and here");
            break;
        }
        let row = format!("| {number} | {code} | {} |", u8::from(code.is_temporary()));
        assert!(DOC.contains(&row), "no row {row}");
    }
}

#[test]
fn the_table_of_limits_is_right() {
    let rows = [
        ("batch body, compressed or not", limits::BATCH_BODY_BYTES_MAX as usize),
        ("messages in a batch", limits::BATCH_RECORDS_MAX as usize),
        ("message", limits::MESSAGE_BYTES_MAX as usize),
        ("control frame payload", limits::CONTROL_PAYLOAD_BYTES_MAX as usize),
        ("name", limits::NAME_BYTES_MAX),
        ("token", limits::TOKEN_BYTES_MAX),
        ("refusal text", limits::REFUSAL_TEXT_BYTES_MAX),
    ];
    for (name, value) in rows {
        let row = format!("| {name} | {} |", with_commas(value));
        assert!(DOC.contains(&row), "no row {row}");
    }
    let usual = format!("usually less: {} unless", with_commas(limits::MESSAGE_BYTES_DEFAULT as usize));
    assert!(DOC.contains(&usual), "no {usual}");
}

fn with_commas(value: usize) -> String {
    match value {
        0..1000 => value.to_string(),
        _ => format!("{},{:03}", with_commas(value / 1000), value % 1000),
    }
}
