//! The batch. If these fail, damage passes for messages, or a stranger's batch can crash a reader or hold more of its
//! memory than the limits say.

use std::net::SocketAddr;

use bbq_wire::batch::{BatchIdentity, BatchLimits, Detail, Origin, Output, crc32c};
use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, BATCH_HEADER_BYTES, FIELD_VALUE_BYTES_MAX, FIELDS_MAX};
use bbq_wire::{Batch, BatchBuilder, BatchError, BatchHeader, Compression, Peer, SourceKind, Span, StreamId};
use proptest::prelude::*;

const LIMITS: BatchLimits = BatchLimits { body_bytes_max: 1 << 20, message_bytes_max: 1 << 16 };

fn identity(compression: Compression) -> BatchIdentity {
    BatchIdentity {
        stream: StreamId(*b"0123456789abcdef"),
        first_sequence: 5,
        base_time_ns: 1_700_000_000_000_000_000,
        source: SourceKind::Lines,
        compression,
    }
}

fn peer(port: u16) -> Peer {
    Peer::Inet(SocketAddr::from(([10, 0, 0, 1], port)))
}

fn build(records: &[Vec<u8>], peers: Option<&[Peer]>, compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for (index, record) in records.iter().enumerate() {
        match peers {
            Some(peers) => builder.push_from(record, peers[index % peers.len()]),
            None => builder.push(record),
        }
    }
    builder.finish(&identity(compression)).map(<[u8]>::to_vec).unwrap_or_default()
}

fn records_of(bytes: &[u8]) -> Result<Vec<Vec<u8>>, BatchError> {
    let mut scratch = Vec::new();
    let batch = Batch::verify(bytes, LIMITS, &mut scratch)?;
    Ok(batch.records().map(<[u8]>::to_vec).collect())
}

/// One peer per record, out of the runs.
fn peers_of(bytes: &[u8]) -> Result<Vec<Peer>, BatchError> {
    let mut scratch = Vec::new();
    let batch = Batch::verify(bytes, LIMITS, &mut scratch)?;
    Ok(batch.peers().flat_map(|(records, peer)| std::iter::repeat_n(peer, records as usize)).collect())
}

/// Writes the checksum that fits.
fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A batch that says what it is told to, with a right checksum; nothing else need be right.
fn forge(compression: u8, records: u32, raw_bytes: u32, records_bytes: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"BBQB\0\0\0\0".to_vec();
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend([1, compression, 0, 0]);
    bytes.extend([7; 16]);
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(records.to_le_bytes());
    bytes.extend(raw_bytes.to_le_bytes());
    bytes.extend(records_bytes.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    seal(bytes)
}

/// An uncompressed one of `records` records, whose attributes are what stands behind them.
fn forge_raw(records: u32, record_bytes: &[u8], attributes: &[u8]) -> Vec<u8> {
    let body = [record_bytes, attributes].concat();
    forge(0, records, body.len() as u32, record_bytes.len() as u32, &body)
}

#[test]
fn the_checksum_is_crc_32c() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa, "RFC 3720, appendix B.4");
}

#[test]
fn what_is_forged_here_is_a_batch() {
    assert_eq!(records_of(&forge_raw(2, b"\x01a\x00", b"")), Ok(vec![b"a".to_vec(), vec![]]));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let records = vec![b"first".repeat(9), b"second".to_vec(), vec![]];
    for compression in [Compression::None, Compression::Lz4] {
        let bytes = build(&records, Some(&[peer(1), peer(2)]), compression);
        assert_eq!(bytes[13], compression as u8, "compressed as wanted");
        assert_eq!(records_of(&bytes), Ok(records.clone()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(records_of(&flipped).is_err(), "bit {bit} of {}", bytes.len());
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = build(&[b"one".to_vec(), b"two".to_vec()], Some(&[peer(1)]), Compression::None);
    for end in 0..bytes.len() {
        assert!(matches!(records_of(&bytes[..end]), Err(BatchError::Truncated { .. })), "{end}");
    }
    // What follows a batch is not its own.
    assert!(records_of(&[&bytes[..], b"more"].concat()).is_ok());
}

#[test]
fn a_record_count_that_does_not_fit_is_refused() {
    let records = b"\x01a\x01b\x01c";
    assert!(records_of(&forge_raw(3, records, b"")).is_ok());
    for count in [1, 2, 4, 6] {
        let error = records_of(&forge_raw(count, records, b"")).expect_err("another count");
        assert!(matches!(error, BatchError::Records { .. }), "{count}: {error}");
    }
    for count in [0, 7, u32::MAX] {
        let error = records_of(&forge_raw(count, records, b"")).expect_err("an impossible count");
        assert!(matches!(error, BatchError::Field { field: "records", .. }), "{count}: {error}");
    }
    // A record that ends behind the records, in the attributes or behind the body.
    assert!(matches!(records_of(&forge_raw(1, b"\x05a", b"\x63\x01x")), Err(BatchError::Records { .. })));
}

#[test]
fn messages_and_bodies_over_the_limit() {
    let bytes = build(&[vec![0; 1 << 16]], None, Compression::None);
    assert!(records_of(&bytes).is_ok());
    let bytes = build(&[vec![0; (1 << 16) + 1]], None, Compression::Lz4);
    assert_eq!(records_of(&bytes), Err(BatchError::MessageTooLarge { bytes: 65_537, limit: 65_536 }));
    let bytes = build(&[vec![0; 1 << 20]], None, Compression::Lz4);
    assert!(bytes.len() < 1 << 16, "small until it is decompressed");
    assert!(matches!(records_of(&bytes), Err(BatchError::TooLarge { .. })));
    assert!(matches!(records_of(&forge(0, 1, u32::MAX, 1, b"\0")), Err(BatchError::TooLarge { .. })));
}

#[test]
fn hostile_compression_is_refused_within_its_limits() {
    let good = lz4_block(&[b"\x20".as_slice(), &[b'x'; 32]].concat());
    assert!(records_of(&forge(1, 1, 33, 33, &good)).is_ok());
    let expect_refused = |raw_bytes: u32, body: &[u8]| {
        let bytes = forge(1, 1, raw_bytes, raw_bytes, body);
        let mut scratch = Vec::new();
        let error = Batch::verify(&bytes, LIMITS, &mut scratch).map(|_| ()).expect_err("hostile");
        assert_eq!(error, BatchError::Compression { expected: raw_bytes });
        assert!(scratch.capacity() <= raw_bytes as usize, "allocates what the header names at most");
    };
    expect_refused(32, &good); // longer than it says
    expect_refused(34, &good); // shorter than it says
    expect_refused(33, &good[..good.len() - 1]);
    expect_refused(33, b"");
    expect_refused(1 << 20, &[0xff; 64]); // a literal that never ends
    expect_refused(40, &[0x1f, b'x', 0, 0, 0xff, 0]); // a match at offset 0
    expect_refused(40, &[0x1f, b'x', 9, 0, 0xff, 0]); // a match before the beginning
}

fn lz4_block(raw: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(raw)
}

#[test]
fn the_scratch_never_passes_the_limit() {
    let mut scratch = Vec::new();
    for bytes in [60_000, 2000, 600_000, 1_000_000] {
        let records: Vec<Vec<u8>> = std::iter::repeat_n(vec![b'x'; 999], bytes / 1001).collect();
        let batch = build(&records, None, Compression::Lz4);
        let verified = Batch::verify(&batch, LIMITS, &mut scratch).expect("a batch");
        assert_eq!(verified.records().count(), records.len());
        assert!(scratch.capacity() <= LIMITS.body_bytes_max as usize);
    }
}

#[test]
fn a_source_that_a_later_version_knows_is_kept() {
    for byte in 0..=u8::MAX {
        assert_eq!(SourceKind::of(byte).byte(), byte);
    }
    let mut builder = BatchBuilder::new();
    builder.push(b"from tomorrow");
    let source = SourceKind::Other(200);
    let bytes = builder.finish(&BatchIdentity { source, ..identity(Compression::None) }).unwrap();
    let mut scratch = Vec::new();
    let batch = Batch::verify(bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
    assert_eq!(batch.header.source, source);
    assert_eq!(batch.records().collect::<Vec<_>>(), [b"from tomorrow"]);
}

#[test]
fn attributes_that_are_not_known_are_passed_over() {
    let runs = b"\x02\x00";
    let attributes = [b"\x63\x03abc\x01\x02".as_slice(), runs, b"\x80\x01\x00"].concat();
    assert_eq!(peers_of(&forge_raw(2, b"\0\0", &attributes)), Ok(vec![Peer::Unnamed; 2]));
}

#[test]
fn attributes_that_do_not_fit_are_refused() {
    let refused = |attributes: &[u8]| {
        assert_eq!(
            records_of(&forge_raw(2, b"\0\0", attributes)),
            Err(BatchError::Attributes),
            "{attributes:?}"
        );
    };
    refused(b"\x63"); // no length
    refused(b"\x63\x05abc"); // longer than there is
    refused(b"\x01\x02\x02\x05"); // a kind of peer that is not known
    refused(b"\x01\x03\x02\x04\x0a"); // an address cut short
    refused(b"\x01\x03\x02\x00\x01"); // a run cut short behind a whole one
    refused(b"\x01\x02\x01\x00"); // a peer for one of two records
    refused(b"\x01\x02\x03\x00"); // for three of two
}

#[test]
fn a_batch_may_be_finished_again_or_go_on() {
    let mut builder = BatchBuilder::new();
    builder.push_from(b"one", peer(1));
    builder.push_from(b"two", peer(2));
    let first = builder.finish(&identity(Compression::None)).expect("records").to_vec();
    let again = builder.finish(&identity(Compression::None)).expect("records").to_vec();
    assert_eq!(first, again);
    builder.push_from(b"three", peer(2));
    let longer = builder.finish(&identity(Compression::Lz4)).expect("records").to_vec();
    assert_eq!(records_of(&longer), Ok(vec![b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]));
    assert_eq!(peers_of(&longer), Ok(vec![peer(1), peer(2), peer(2)]));
    builder.clear();
    assert_eq!(builder.finish(&identity(Compression::None)), None);
    builder.push(b"four");
    let other = builder.finish(&identity(Compression::None)).expect("a record").to_vec();
    assert_eq!(other, build(&[b"four".to_vec()], None, Compression::None), "nothing of the last one is left");
}

#[test]
fn records_without_peers_among_those_with() {
    let mut builder = BatchBuilder::new();
    builder.push(b"one");
    builder.push_from(b"two", peer(2));
    builder.push(b"three");
    let bytes = builder.finish(&identity(Compression::None)).expect("records");
    assert_eq!(peers_of(bytes), Ok(vec![Peer::Unnamed, peer(2), Peer::Unnamed]));
}

fn any_records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let record = prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..300),
        3 => "[ab]{0,300}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(record, 1..20)
}

fn any_peer() -> impl Strategy<Value = Peer> {
    prop_oneof![
        Just(Peer::Unnamed),
        any::<[u32; 3]>().prop_map(|[pid, uid, gid]| Peer::Process { pid, uid, gid }),
        any::<([u8; 4], u16)>().prop_map(|address| Peer::Inet(SocketAddr::from(address))),
        any::<([u8; 16], u16)>().prop_map(|address| Peer::Inet(SocketAddr::from(address))),
    ]
}

proptest! {
    #[test]
    fn what_is_built_comes_back(
        records in any_records(),
        peers in proptest::option::of(proptest::collection::vec(any_peer(), 1..4)),
        lz4 in any::<bool>(),
    ) {
        let compression = if lz4 { Compression::Lz4 } else { Compression::None };
        let bytes = build(&records, peers.as_deref(), compression);
        prop_assert_eq!(records_of(&bytes), Ok(records.clone()));
        let wanted: Vec<Peer> =
            peers.map_or(vec![], |peers| peers.into_iter().cycle().take(records.len()).collect());
        prop_assert_eq!(peers_of(&bytes), Ok(wanted));

        let header = Batch::peek(&bytes)?.map(|header| (header, header.total_bytes(), header.last_sequence()));
        let Some((header, total_bytes, last_sequence)) = header else { panic!("a whole header") };
        prop_assert_eq!(total_bytes, bytes.len());
        prop_assert_eq!(last_sequence, 4 + records.len() as u64);
        prop_assert_eq!(header.source, SourceKind::Lines);
        prop_assert_eq!(header.stream, identity(compression).stream);
        prop_assert_eq!(header.base_time_ns, 1_700_000_000_000_000_000);
        prop_assert!(header.body_bytes <= header.raw_bytes, "never larger for being compressed");
    }

    #[test]
    fn any_bytes_are_a_batch_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()) {
        if magic && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(b"BBQB");
        }
        let _ = records_of(&bytes);
        if let Some(header) = bytes.first_chunk::<BATCH_HEADER_BYTES>() {
            let _ = BatchHeader::decode(header);
        }
    }

    #[test]
    fn any_body_under_a_right_checksum_is_a_batch_or_an_error(
        body in proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 1..100),
        lz4 in any::<bool>(), records in 1u32..40, raw_bytes in 1u32..400, records_bytes in 1u32..400,
    ) {
        let raw_bytes = if lz4 { raw_bytes } else { body.len() as u32 };
        let bytes = forge(lz4.into(), records, raw_bytes, records_bytes.min(raw_bytes), &body);
        if let Ok(found) = records_of(&bytes) {
            prop_assert_eq!(found.len(), records as usize);
            let peers = peers_of(&bytes)?.len();
            prop_assert!(peers == 0 || peers == found.len());
        }
    }
}

#[test]
fn why_records_were_rejected_comes_back() {
    let peer = Peer::Inet(SocketAddr::from(([192, 0, 2, 1], 514)));
    let record = vec![b'x'; 1000];
    for (compression, with_peers) in [
        (Compression::None, true),
        (Compression::None, false),
        (Compression::Lz4, true),
        (Compression::Lz4, false),
    ] {
        let mut builder = BatchBuilder::new();
        let identity = identity(compression);
        let mut scratch = Vec::new();
        let mut read = |builder: &mut BatchBuilder, records: usize| {
            let bytes = builder.finish(&identity).expect("it has records");
            let batch = Batch::verify(bytes, BatchLimits::FORMAT, &mut scratch).expect("it was built right");
            let peers: Vec<(u32, Peer)> = batch.peers().collect();
            assert_eq!(peers, if with_peers { vec![(records as u32, peer)] } else { vec![] });
            assert_eq!(batch.records().count(), records);
            batch.rejection().map(str::to_owned)
        };
        let push = |builder: &mut BatchBuilder| match with_peers {
            true => builder.push_from(&record, peer),
            false => builder.push(&record),
        };
        push(&mut builder);
        assert_eq!(read(&mut builder, 1), None);
        builder.set_rejection("400 Bad Request");
        assert_eq!(read(&mut builder, 1).as_deref(), Some("400 Bad Request"));
        push(&mut builder);
        assert_eq!(read(&mut builder, 2).as_deref(), Some("400 Bad Request"));
        // 255 bytes of two-byte letters and one more.
        builder.set_rejection(&format!("x{}", "é".repeat(200)));
        assert_eq!(read(&mut builder, 2), Some(format!("x{}", "é".repeat(127))));
        builder.clear();
        push(&mut builder);
        assert_eq!(read(&mut builder, 1), None);
    }
}

#[test]
fn the_origin_is_beside_the_other_attributes() {
    let origin = Origin { received_ns: u64::MAX - 1, listener: "tcp://0.0.0.0:514?mode=lines" };
    let peer = Peer::Inet(([192, 0, 2, 1], 514).into());
    for compression in [Compression::None, Compression::Lz4] {
        let mut builder = BatchBuilder::new();
        builder.push_from(&[b'x'; 400], peer);
        builder.set_rejection("400 Bad Request");
        builder.set_origin(&origin);
        let mut scratch = Vec::new();
        let bytes = builder.finish(&identity(compression)).expect("it has a record").to_vec();
        let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch).expect("it was built right");
        assert_eq!(batch.origin(), Some(origin));
        assert_eq!(batch.rejection(), Some("400 Bad Request"));
        assert_eq!(batch.peers().collect::<Vec<_>>(), [(1, peer)]);
        assert!(batch.parts(1, 1).all(|part| part.origin() == Some(origin)));
        builder.clear();
        builder.push(b"own");
        let bytes = builder.finish(&identity(compression)).expect("it has a record");
        let batch = Batch::verify(bytes, BatchLimits::FORMAT, &mut scratch).expect("it was built right");
        assert_eq!(batch.origin(), None);
    }
}

/// What is too short, or no text, is no origin; the batch is valid, as it is with an unknown attribute.
#[test]
fn a_malformed_origin_is_none() {
    for value in [&b""[..], b"1234567", b"12345678\xff"] {
        let mut attributes = vec![3, value.len() as u8];
        attributes.extend_from_slice(value);
        let bytes = forge_raw(1, b"\x01x", &attributes);
        let mut scratch = Vec::new();
        let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch).expect("it is valid");
        assert_eq!(batch.origin(), None);
    }
}

#[test]
fn the_parts_of_a_batch_are_its_records_with_their_numbers_and_peers() {
    let peers: Vec<Peer> = [1, 1, 1, 2, 2, 3, 1, 1, 1, 1]
        .map(|port| Peer::Inet(SocketAddr::from(([127, 0, 0, 1], port))))
        .to_vec();
    let mut builder = BatchBuilder::new();
    for (number, peer) in peers.iter().enumerate() {
        builder.push_from(format!("{:number$}", "").as_bytes(), *peer);
    }
    let bytes = builder.finish(&identity(Compression::None)).unwrap();
    let mut scratch = Vec::new();
    let batch = Batch::verify(bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
    let seen = |batch: &Batch<'_>| {
        let peers = batch.peers().flat_map(|(records, peer)| std::iter::repeat_n(peer, records as usize));
        let numbers = batch.header.first_sequence..;
        let records = numbers.zip(batch.records().map(<[u8]>::len)).zip(peers);
        let records: Vec<_> = records.collect();
        assert_eq!(records.len(), batch.header.records as usize);
        records
    };
    let whole = seen(&batch);
    for records_max in [1, 2, 3, 4, 9, 10, 11] {
        let parts: Vec<Batch<'_>> = batch.parts(records_max, usize::MAX).collect();
        assert_eq!(parts.len(), 10_usize.div_ceil(records_max as usize));
        assert_eq!(parts.iter().flat_map(seen).collect::<Vec<_>>(), whole, "{records_max}");
    }
    // Records have 1 to 10 bytes with their length.
    for bytes_max in [0, 1, 2, 3, 7, 10, 11, 54, 55, 100] {
        let parts: Vec<Batch<'_>> = batch.parts(u32::MAX, bytes_max).collect();
        let bytes = |part: &Batch<'_>| part.header.records_bytes as usize;
        assert!(parts.iter().all(|part| bytes(part) <= bytes_max || part.header.records == 1), "{bytes_max}");
        assert!(parts.windows(2).all(|pair| bytes(&pair[0]) + bytes(&pair[1]) > bytes_max), "{bytes_max}");
        assert_eq!(parts.iter().flat_map(seen).collect::<Vec<_>>(), whole, "{bytes_max}");
    }
}

/// What a next server gets: the same records, numbers and attributes, with an origin and peers unless they were there.
#[test]
fn a_relayed_batch_says_who_received_it_first() {
    let origin = Origin { received_ns: 12, listener: "lines+tcp://127.0.0.1:7701" };
    let later = Origin { received_ns: 99, listener: "another" };
    let peer = Peer::Inet(([192, 0, 2, 1], 514).into());
    for (compression, has_peers) in [
        (Compression::None, false),
        (Compression::Lz4, false),
        (Compression::None, true),
        (Compression::Lz4, true),
    ] {
        let mut builder = BatchBuilder::new();
        for number in 0..40 {
            let record = format!("a message that is compressed well, number {number}");
            match has_peers {
                true => builder.push_from(record.as_bytes(), Peer::Unnamed),
                false => builder.push(record.as_bytes()),
            }
        }
        let identity = identity(compression);
        let bytes = builder.finish(&identity).unwrap().to_vec();
        let mut unpacked = Vec::new();
        let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut unpacked).unwrap();
        let (mut body, mut relayed) = (Vec::new(), b"before".to_vec());
        batch.append_relayed(&origin, peer, &mut body, &mut relayed);
        let mut unpacked_again = Vec::new();
        let first = Batch::verify(&relayed[6..], BatchLimits::FORMAT, &mut unpacked_again).unwrap();
        assert_eq!(first.origin(), Some(origin));
        assert!(first.records().eq(batch.records()));
        let named = if has_peers { Peer::Unnamed } else { peer };
        assert_eq!(first.peers().collect::<Vec<_>>(), [(40, named)]);
        let BatchHeader { stream, first_sequence, base_time_ns, source, records, .. } = first.header;
        assert_eq!(
            (stream, first_sequence, base_time_ns, source, records, first.header.compression),
            (
                identity.stream,
                identity.first_sequence,
                identity.base_time_ns,
                identity.source,
                40,
                compression
            )
        );
        // A further server changes nothing.
        let (mut body, mut again) = (Vec::new(), Vec::new());
        first.append_relayed(&later, Peer::Unnamed, &mut body, &mut again);
        assert_eq!(again, relayed[6..]);
    }
}

#[test]
fn fields_and_details_pass_every_server() {
    let fields = [("k8s.pod.name", "web-0"), ("file.path", "/var/log/a b")];
    let detail = |number: u64| Detail {
        time_ns: number,
        output: if number.is_multiple_of(2) { Output::Stdout } else { Output::Stderr },
    };
    let here = Origin { received_ns: 9, listener: "file:/var/log/*" };
    for compression in [Compression::None, Compression::Lz4] {
        let mut builder = BatchBuilder::new();
        builder.set_fields(fields.into_iter());
        for number in 5..15 {
            builder.push(&[b'x'; 50]);
            builder.set_detail(detail(number));
        }
        let bytes = builder.finish(&identity(compression)).unwrap().to_vec();
        let mut unpacked = Vec::new();
        let batch = Batch::verify(&bytes, LIMITS, &mut unpacked).unwrap();
        let mut sent = [Vec::new(), Vec::new()];
        batch.append_relayed(&here, Peer::Unnamed, &mut Vec::new(), &mut sent[0]);
        batch.append_with_given_up(3, &mut Vec::new(), &mut sent[1]);
        for bytes in [&bytes, &sent[0], &sent[1]] {
            let mut unpacked = Vec::new();
            let batch = Batch::verify(bytes, LIMITS, &mut unpacked).unwrap();
            assert!(batch.fields().eq(fields));
            assert!(batch.details().eq((5..15).map(detail)));
            let parts: Vec<Batch<'_>> = batch.parts(3, 1 << 20).collect();
            assert!(parts.iter().all(|part| part.fields().eq(fields)));
            let mut numbers = 5..;
            for part in parts {
                let records = part.header.records as usize;
                assert!(part.details().take(records).eq(numbers.by_ref().take(records).map(detail)));
            }
            let mut part = Vec::new();
            batch.append_part(Span { first: 7, last: 8 }, &mut part);
            let mut unpacked = Vec::new();
            let part = Batch::verify(&part, LIMITS, &mut unpacked).unwrap();
            assert!(part.fields().eq(fields));
            assert!(part.details().eq((7..9).map(detail)));
        }
    }
}

#[test]
fn fields_of_records_pass_every_server() {
    let of = |number: u64| [("unit", if number.is_multiple_of(2) { "a.service" } else { "b.service" })];
    let check = |batch: &Batch<'_>, numbers: std::ops::Range<u64>| {
        let mut sets = batch.record_fields();
        for number in numbers {
            let fields: Vec<_> = sets.next().unwrap().collect();
            // The record with number 7 has none.
            let expected = if number == 7 { Vec::new() } else { of(number).to_vec() };
            assert_eq!(fields, expected, "{number}");
        }
    };
    for compression in [Compression::None, Compression::Lz4] {
        let mut builder = BatchBuilder::new();
        for number in 5..15 {
            builder.push(&[b'x'; 50]);
            if number != 7 {
                builder.set_record_fields(of(number).into_iter());
            }
            // A batch can be finished in between.
            builder.finish(&identity(compression)).unwrap();
        }
        let bytes = builder.finish(&identity(compression)).unwrap().to_vec();
        let mut unpacked = Vec::new();
        let batch = Batch::verify(&bytes, LIMITS, &mut unpacked).unwrap();
        let mut sent = Vec::new();
        let here = Origin { received_ns: 9, listener: "journal" };
        batch.append_relayed(&here, Peer::Unnamed, &mut Vec::new(), &mut sent);
        for bytes in [&bytes, &sent] {
            let mut unpacked = Vec::new();
            let batch = Batch::verify(bytes, LIMITS, &mut unpacked).unwrap();
            check(&batch, 5..15);
            let mut first = 5;
            for part in batch.parts(3, 1 << 20) {
                check(&part, first..first + u64::from(part.header.records));
                first += u64::from(part.header.records);
            }
            let mut part = Vec::new();
            batch.append_part(Span { first: 7, last: 9 }, &mut part);
            let mut unpacked = Vec::new();
            check(&Batch::verify(&part, LIMITS, &mut unpacked).unwrap(), 7..10);
        }
    }
}

/// A client chooses how full a batch is, and which of its records the server knows already. If this fails, a client can end the server.
#[test]
fn a_batch_of_the_largest_size_can_be_cut() {
    const RECORD_BYTES: usize = 1 << 20;
    let body_bytes = BATCH_BODY_BYTES_MAX as usize;
    let mut body = Vec::new();
    Batch::put_record(b"x", &mut body);
    for _ in 0..15 {
        Batch::put_record(&[b'y'; RECORD_BYTES], &mut body);
    }
    // Its length takes three bytes.
    let last = vec![b'z'; body_bytes - body.len() - 3];
    Batch::put_record(&last, &mut body);
    let bytes = forge(0, 17, BATCH_BODY_BYTES_MAX, BATCH_BODY_BYTES_MAX, &body);
    let mut unpacked = Vec::new();
    let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut unpacked).unwrap();
    let first = batch.header.first_sequence;
    let mut part = Vec::new();
    batch.append_part(Span { first: first + 1, last: first + 16 }, &mut part);
    let mut unpacked = Vec::new();
    let part = Batch::verify(&part, BatchLimits::FORMAT, &mut unpacked).unwrap();
    assert_eq!((part.header.records, part.header.first_sequence), (16, first + 1));
    assert_eq!(part.records().last(), Some(&*last));
}

#[test]
fn a_part_has_what_is_known_of_its_records_and_is_no_larger_than_the_whole() {
    const RECORDS: u64 = 400;
    let set = |number: u64| format!("unit-{number}.service");
    let mut builder = BatchBuilder::new();
    builder.set_fields([("host", "a")].into_iter());
    builder.set_origin(&Origin { received_ns: 9, listener: "journal" });
    builder.set_rejection("too old");
    for number in 0..RECORDS {
        builder.push_from(b"x", peer((number / 3) as u16));
        builder.set_detail(Detail { time_ns: number, output: Output::Stdout });
        // Each has a set of its own at first; later ones have those of the first again.
        builder.set_record_fields([("unit", set(number % 300).as_str())].into_iter());
    }
    let bytes = builder.finish(&identity(Compression::Lz4)).unwrap().to_vec();
    let mut unpacked = Vec::new();
    let whole = Batch::verify(&bytes, LIMITS, &mut unpacked).unwrap();
    for numbers in [0..1, 0..400, 1..400, 3..4, 7..299, 150..310, 299..400, 399..400] {
        let mut part = Vec::new();
        whole.append_part(Span { first: 5 + numbers.start, last: 4 + numbers.end }, &mut part);
        let mut unpacked = Vec::new();
        let part = Batch::verify(&part, LIMITS, &mut unpacked).unwrap();
        assert!(part.header.raw_bytes <= whole.header.raw_bytes, "{numbers:?}");
        assert_eq!(u64::from(part.header.records), numbers.end - numbers.start);
        assert_eq!((part.origin(), part.rejection()), (whole.origin(), Some("too old")), "{numbers:?}");
        assert!(part.fields().eq(whole.fields()));
        assert!(part.details().map(|detail| detail.time_ns).eq(numbers.clone()));
        let peers = part.peers().flat_map(|(records, peer)| std::iter::repeat_n(peer, records as usize));
        assert!(peers.eq(numbers.clone().map(|number| peer((number / 3) as u16))), "{numbers:?}");
        let units: Vec<_> = part.record_fields().filter_map(|mut fields| fields.next()).collect();
        let expected: Vec<String> = numbers.clone().map(|number| set(number % 300)).collect();
        assert!(units.iter().map(|(_, unit)| *unit).eq(expected.iter().map(String::as_str)), "{numbers:?}");
    }
}

#[test]
fn damaged_fields_of_records_are_refused() {
    let mut builder = BatchBuilder::new();
    builder.push(b"1");
    builder.set_record_fields([("n", "v")].into_iter());
    builder.push(b"2");
    let bytes = builder.finish(&identity(Compression::None)).unwrap().to_vec();
    // Key and length, one set of four bytes, and the places of both records.
    let value = bytes.len() - 8;
    assert_eq!(bytes[value - 1..], [8, 1, 4, 1, b'n', 1, b'v', 1, 0]);
    let verify = |at: usize, byte: u8| {
        let mut damaged = bytes.clone();
        damaged[value + at] = byte;
        let crc = crc32c(&damaged[8..]);
        damaged[4..8].copy_from_slice(&crc.to_le_bytes());
        let mut unpacked = Vec::new();
        Batch::verify(&damaged, LIMITS, &mut unpacked).map(|_| ())
    };
    assert_eq!(verify(7, 1), Ok(()));
    for (at, byte) in [(0, 0), (0, 2), (1, 3), (1, 5), (1, 200), (6, 2), (7, 2), (7, 0x80)] {
        assert_eq!(verify(at, byte), Err(BatchError::Attributes), "{byte} at {at}");
    }
}

#[test]
fn fields_are_cut_at_their_limits_and_details_are_of_every_record() {
    let mut builder = BatchBuilder::new();
    let long = "v".repeat(FIELD_VALUE_BYTES_MAX + 1);
    builder.set_fields((0..FIELDS_MAX + 1).map(|_| ("n", long.as_str())));
    builder.push(b"1");
    builder.push(b"2");
    builder.set_detail(Detail { time_ns: 2, output: Output::Stdout });
    builder.push(b"3");
    let bytes = builder.finish(&identity(Compression::None)).unwrap().to_vec();
    let mut unpacked = Vec::new();
    let batch = Batch::verify(&bytes, LIMITS, &mut unpacked).unwrap();
    assert_eq!(batch.fields().count(), FIELDS_MAX);
    assert!(batch.fields().all(|(_, value)| value.len() == FIELD_VALUE_BYTES_MAX));
    assert!(batch.details().map(|detail| detail.time_ns).eq([0, 2, 0]));

    let mut damaged = bytes.clone();
    let records = damaged.len() - 3 * 9 - 1;
    assert_eq!(damaged[records], 27);
    damaged[records] = 26;
    damaged.pop();
    for (at, less) in [(8, 1), (52, 1)] {
        let value = u32::from_le_bytes(damaged[at..at + 4].try_into().unwrap()) - less;
        damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let crc = crc32c(&damaged[8..]);
    damaged[4..8].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Batch::verify(&damaged, LIMITS, &mut unpacked).unwrap_err(), BatchError::Attributes);
}
