//! Any bytes of GELF over UDP and TCP are messages or are counted. The first byte chooses:
//!
//! - a connection is cut into the same messages in any pieces, also if its framer changes hands;
//! - any texts are stored or lost, each once;
//! - chunks of several senders, at any times, are put together within the memory that is allowed, and each message that is begun is complete or
//!   lost. The chunks of one that nobody disturbs come out as it was.
#![no_main]

use std::net::SocketAddr;

use bbq_fuzz::same_in_any_pieces;
use bbq_senders::gelf::{Assembler, Loose, Sender, is_chunk};
use bbq_wire::framing::{Frame, FramingRules, Gelf};
use libfuzzer_sys::fuzz_target;

const MESSAGE_BYTES_MAX: usize = 300;

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    match choice % 3 {
        0 => same_in_any_pieces(data, told),
        1 => stored(data),
        _ => assembled(data),
    }
});

fn told(rules: &FramingRules, input: &[u8], piece: usize) -> Vec<String> {
    let (mut framer, mut told) = (Gelf::new(), Vec::new());
    let mut emit = |frame: Frame<'_>| told.push(format!("{frame:?}"));
    for input in input.chunks(piece) {
        framer.push(rules, input, &mut emit);
        assert!(framer.held_bytes() <= rules.message_bytes_max as usize + 1);
        framer = match Gelf::resume(framer.suspend()) {
            Some(framer) => framer,
            None => panic!("its own state is refused"),
        };
    }
    framer.finish(rules, &mut emit);
    assert_eq!(framer.held_bytes(), 0);
    told
}

fn stored(data: &[u8]) {
    let mut loose = Loose::new(MESSAGE_BYTES_MAX);
    let mut texts = 0;
    for text in data.split(|byte| *byte == 0) {
        loose.take(text);
        texts += 1;
    }
    assert!(loose.events().len() as u64 + loose.malformed + loose.oversize >= texts);
    assert!(loose.malformed + loose.oversize <= texts);
    assert!(loose.events().iter().all(|event| event.message.len() <= MESSAGE_BYTES_MAX));
}

fn assembled(data: &[u8]) {
    let mut assembler = Assembler::new(MESSAGE_BYTES_MAX);
    let (mut now_ms, mut begun, mut ended) = (0u64, 0u64, 0u64);
    for chunk in data.split(|byte| *byte == b'\n') {
        let [who, time, chunk @ ..] = chunk else { continue };
        // In sixteenths of a second.
        now_ms += u64::from(*time) * 64;
        let sender = Sender::Inet(SocketAddr::from(([192, 0, 2, *who >> 4], u16::from(*who & 15))));
        let chunk = [&[0x1e, 0x0f][..], chunk].concat();
        assert!(is_chunk(&chunk));
        begun += 1;
        match assembler.take(now_ms, sender, &chunk) {
            Ok(Some(message)) => {
                assert!(message.len() <= MESSAGE_BYTES_MAX);
                ended += 1;
            }
            Ok(None) | Err(_) => {}
        }
    }
    // One of its own, in reverse.
    let own = Sender::Inet(SocketAddr::from(([198, 51, 100, 1], 1)));
    let parts: Vec<&[u8]> = data[..data.len().min(128)].chunks(16).collect();
    let count = parts.len() as u8;
    for (number, part) in (0..count).zip(&parts).rev() {
        let chunk = [&[0x1e, 0x0f][..], &[7; 8], &[number, count], *part].concat();
        match assembler.take(now_ms, own, &chunk) {
            Ok(Some(message)) => assert!(number == 0 && data.starts_with(&message)),
            Ok(None) => assert!(number > 0),
            Err(error) => panic!("a chunk of its own is refused: {error}"),
        }
    }
    assembler.give_up();
    let lost = assembler.take_lost();
    assert!(assembler.is_empty() && lost.incomplete + lost.evicted + ended <= begun);
}
