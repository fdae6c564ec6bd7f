//! Chunks in any order, more than once, of several senders, wrong ones, and more than there is room for.

use super::*;

const LARGEST: usize = 100_000;

fn sender(last: u8, port: u16) -> Sender {
    Sender::Inet(SocketAddr::from(([192, 0, 2, last], port)))
}

fn chunk(id: u64, number: u8, count: u8, part: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &id.to_be_bytes(), &[number, count], part].concat()
}

#[test]
fn a_message_is_complete_whatever_the_order_and_what_comes_again_is_ignored() {
    let parts: Vec<Vec<u8>> = (0..128).map(|number| vec![number; usize::from(number)]).collect();
    let whole = parts.concat();
    // What comes again does not count towards its size.
    let mut assembler = Assembler::new(whole.len());
    for (id, order) in [(1, (0..128).collect::<Vec<u8>>()), (2, (0..128).rev().collect())] {
        let (last, first) = order.split_last().unwrap();
        for number in first.iter().chain(first) {
            let chunk = chunk(id, *number, 128, &parts[usize::from(*number)]);
            assert_eq!(assembler.take(0, sender(1, 1), &chunk), Ok(None));
        }
        let chunk = chunk(id, *last, 128, &parts[usize::from(*last)]);
        assert_eq!(assembler.take(ASSEMBLY_MS - 1, sender(1, 1), &chunk), Ok(Some(whole.clone())));
        // The network may bring it again.
        assert_eq!(assembler.take(ASSEMBLY_MS - 1, sender(1, 1), &chunk), Ok(None));
    }
    assert_eq!(assembler.bytes, 0);
    assembler.give_up();
    assert_eq!((assembler.take_lost(), assembler.is_empty()), (Lost::default(), true));
    assert_eq!(assembler.take(0, sender(1, 1), &chunk(3, 0, 1, b"one")), Ok(Some(b"one".to_vec())));
}

#[test]
fn equal_ids_of_different_senders_are_different_messages() {
    let mut assembler = Assembler::new(LARGEST);
    let senders = [sender(1, 1), sender(1, 2), sender(2, 1), Sender::Process(7), Sender::Unknown];
    for (sender, part) in senders.iter().zip(0..) {
        assert_eq!(assembler.take(0, *sender, &chunk(1, 0, 2, &[part])), Ok(None));
    }
    for (sender, part) in senders.iter().zip(0..) {
        assert_eq!(assembler.take(0, *sender, &chunk(1, 1, 2, &[9])), Ok(Some(vec![part, 9])));
    }
}

#[test]
fn a_message_whose_time_is_over_is_counted_and_another_one_may_have_its_id() {
    let mut assembler = Assembler::new(LARGEST);
    assert_eq!(assembler.take(10, sender(1, 1), &chunk(1, 0, 2, b"a")), Ok(None));
    assembler.expire(10 + ASSEMBLY_MS - 1);
    assert_eq!((assembler.take_lost().incomplete, assembler.is_empty()), (0, false));
    // Too late: it begins another one.
    assert_eq!(assembler.take(10 + ASSEMBLY_MS, sender(1, 1), &chunk(1, 1, 2, b"b")), Ok(None));
    assert_eq!(assembler.take_lost(), Lost { incomplete: 1, evicted: 0 });
    assert_eq!(
        assembler.take(10 + ASSEMBLY_MS, sender(1, 1), &chunk(1, 0, 2, b"a")),
        Ok(Some(b"ab".to_vec()))
    );
    assembler.expire(u64::MAX);
    assert_eq!((assembler.take_lost(), assembler.is_empty()), (Lost::default(), true));
}

#[test]
fn wrong_chunks_are_refused() {
    let mut assembler = Assembler::new(LARGEST);
    let from = sender(1, 1);
    assert_eq!(assembler.take(0, from, &MAGIC), Err(ChunkError::Short));
    assert_eq!(assembler.take(0, from, &chunk(1, 0, 2, b"")[..11]), Err(ChunkError::Short));
    for (number, count) in [(0, 0), (1, 1), (2, 2), (255, 2), (0, 129), (0, 255), (128, 128)] {
        let error = assembler.take(0, from, &chunk(1, number, count, b"a"));
        assert_eq!(error, Err(ChunkError::Number { number, count }));
    }
    assert!(assembler.is_empty());
    // Counts differ: the message is given up, and counted by the error.
    assert_eq!(assembler.take(0, from, &chunk(1, 0, 3, b"a")), Ok(None));
    assert_eq!(assembler.take(0, from, &chunk(1, 1, 2, b"b")), Err(ChunkError::Count { known: 3, count: 2 }));
    assert_eq!(assembler.take(0, from, &chunk(1, 1, 3, b"b")), Ok(None));
    // So is one that is too long.
    assert_eq!(assembler.take(0, from, &chunk(2, 0, 2, &[0; LARGEST])), Ok(None));
    assert_eq!(assembler.take(0, from, &chunk(2, 1, 2, b"b")), Err(ChunkError::TooLong));
    assert_eq!(assembler.bytes, 0);
    assembler.give_up();
    assert_eq!(assembler.take_lost(), Lost::default());
}

#[test]
fn a_stranger_with_half_messages_does_not_push_out_others() {
    let mut assembler = Assembler::new(LARGEST);
    let (own, stranger) = (sender(1, 1), |port| sender(2, port));
    let part = [1; 50_000];
    assert_eq!(assembler.take(0, own, &chunk(1, 0, 2, &part)), Ok(None));
    let mut most = 0;
    for port in 0..10_000 {
        assert_eq!(assembler.take(0, stranger(port), &chunk(2, 0, 128, &part)), Ok(None));
        most = most.max(assembler.bytes);
    }
    assert!(most <= Assembler::bytes_max(LARGEST) / 2 + MESSAGE_BYTES + part.len(), "{most}");
    // Small ones, of which there are too many.
    for id in 0..10_000 {
        assert_eq!(assembler.take(0, stranger(1), &chunk(id, 0, 128, b"")), Ok(None));
    }
    assert!(assembler.messages.len() <= MESSAGES_MAX && assembler.ages.len() <= MESSAGES_MAX);
    assert_eq!(assembler.take(0, own, &chunk(1, 1, 2, b"b")).unwrap().unwrap().len(), 50_001);
    assembler.give_up();
    let Lost { incomplete, evicted } = assembler.take_lost();
    assert_eq!(incomplete + evicted, 20_000, "each is counted once");
    assert_eq!((assembler.bytes, assembler.held.len(), assembler.is_empty()), (0, 0, true));
}

#[test]
fn strangers_of_many_addresses_hold_no_more_than_all_may() {
    let mut assembler = Assembler::new(LARGEST);
    for number in 0..2000u32 {
        let from = Sender::Inet(SocketAddr::from((number.to_be_bytes(), 1)));
        assert_eq!(assembler.take(0, from, &chunk(1, 0, 2, &[1; 50_000])), Ok(None));
        assert!(assembler.bytes <= Assembler::bytes_max(LARGEST));
    }
    let network = |last: u16, network: u16| {
        Sender::Inet(SocketAddr::from(([0x2001, 0xdb8, 0, network, 0, 0, 0, last], 1)))
    };
    assert_eq!(network(1, 1).holder(), network(2, 1).holder());
    assert_ne!(network(1, 1).holder(), network(1, 2).holder());
    let mapped = Sender::Inet("[::ffff:192.0.2.1]:9".parse().unwrap());
    assert_eq!(mapped.holder(), sender(1, 5).holder());
}
