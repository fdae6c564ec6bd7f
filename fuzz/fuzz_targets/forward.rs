//! Any bytes are messages of the Forward Protocol, or are none: the same in any pieces. Their entries come in parts that are bounded, and the
//! same messages come in small parts as in large ones. A digest of a PING is checked. The first byte is the size of the pieces.
#![no_main]

use bbq_senders::forward::{Challenge, Finder, Limits, Message, SALT_BYTES};
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((piece, bytes)) = data.split_first() else { return };
    let whole = messages(bytes, usize::MAX);
    assert_eq!(messages(bytes, usize::from(*piece).max(1)), whole);
    let mut rest = bytes;
    for length in whole {
        read(&rest[..length]);
        rest = &rest[length..];
    }
});

/// The lengths of the messages that are there as a whole.
fn messages(bytes: &[u8], piece: usize) -> Vec<usize> {
    let (mut finder, mut held, mut lengths) = (Finder::new(BYTES_MAX), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.min(bytes.len().max(1))) {
        held.extend_from_slice(piece);
        while !held.is_empty() {
            match finder.find(&held) {
                Ok(Some(found)) => {
                    lengths.push(found.bytes);
                    held.drain(..found.bytes);
                }
                Ok(None) => break,
                Err(_) => return lengths,
            }
        }
    }
    lengths
}

fn read(bytes: &[u8]) {
    let Ok(Some(found)) = Finder::new(BYTES_MAX).find(bytes) else { panic!("it was found before") };
    match Message::read(bytes, found) {
        Ok(Message::Records(records)) => {
            let _sent = records.chunk.map(|chunk| (chunk.id().len(), chunk.answer()));
            // Compressed entries are decoded elsewhere; here they stand for themselves.
            let decoded = records.compressed().map(|(_, bytes)| bytes).unwrap_or_default();
            let all = |part_bytes| {
                let limits =
                    Limits { message_bytes_max: 1000, cuts: bytes.len().is_multiple_of(2), part_bytes };
                let (mut entries, mut messages) = (records.entries(decoded), Vec::new());
                while let Ok(Some(part)) = entries.part(records.tag, limits) {
                    assert!(part.events.iter().all(|event| event.message.len() <= 1000));
                    let of_part = part.events.iter().map(|event| {
                        let fields: Vec<_> =
                            event.fields.clone().map(|(name, value)| format!("{name}={value}")).collect();
                        (event.message.to_vec(), event.time_ns, fields)
                    });
                    messages.extend(of_part);
                }
                messages
            };
            let (small, large) = (all(100), all(usize::MAX));
            // An entry that is none ends its part, with what was before it.
            assert!(small.len() >= large.len() && small[..large.len()] == large[..]);
        }
        Ok(Message::Ping(ping)) => {
            let challenge = Challenge { nonce: [1; SALT_BYTES], auth: Some([2; SALT_BYTES]) };
            assert!(challenge.check(&ping, "a key", |_| Some("a password")).is_err());
        }
        _ => {}
    }
}
