//! Both ends take any bytes, and take them the same in any pieces. The first byte is the size of the pieces.
#![no_main]

use bbq_wire::batch::{BatchLimits, crc32c};
use bbq_wire::session::{ClientSession, ClientStep, ServerSession, ServerStep};
use libfuzzer_sys::fuzz_target;

const LIMITS: BatchLimits = BatchLimits { body_bytes_max: 1 << 16, message_bytes_max: 1 << 12 };

fuzz_target!(|data: &[u8]| {
    let Some((piece, input)) = data.split_first() else { return };
    let piece = usize::from(*piece).max(1);
    let input = with_checksums(input.to_vec());
    assert_eq!(server(&input, piece), server(&input, usize::MAX));
    assert_eq!(client(&input, piece), client(&input, usize::MAX));
});

/// Makes the checksum of each control frame fit, as chance does not find it.
fn with_checksums(mut input: Vec<u8>) -> Vec<u8> {
    let mut from = 0;
    while let Some(frame) = input.get_mut(from..).filter(|rest| rest.len() >= 16 && rest.starts_with(b"BBQC"))
    {
        let payload_bytes = u32::from_le_bytes([frame[8], frame[9], frame[10], frame[11]]) as usize;
        let Some(frame) = frame.get_mut(..payload_bytes.saturating_add(16)) else { break };
        let crc = crc32c(&frame[8..]);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        from += frame.len();
    }
    input
}

fn server(input: &[u8], piece: usize) -> Vec<String> {
    let (mut session, mut told, mut from, mut to) = (ServerSession::new(LIMITS), Vec::new(), 0, 0);
    loop {
        match session.next(&input[from..to]) {
            Ok(ServerStep::NeedMore { at_least }) => {
                assert!(at_least > to - from && at_least <= 64 + (1 << 16));
                if to == input.len() {
                    return told;
                }
                to = to.saturating_add(piece).min(input.len());
            }
            Ok(ServerStep::Hello { hello, consumed }) => {
                told.push(format!("{hello:?}"));
                from += consumed;
            }
            Ok(ServerStep::Batch { header, consumed, .. }) => {
                told.push(format!("{header:?}"));
                from += consumed;
            }
            Err(refusal) => {
                told.push(refusal.text);
                return told;
            }
        }
    }
}

fn client(input: &[u8], piece: usize) -> Vec<String> {
    let (mut session, mut told, mut from, mut to) = (ClientSession::new(), Vec::new(), 0, 0);
    loop {
        match session.next(&input[from..to]) {
            Ok(ClientStep::NeedMore { at_least }) => {
                assert!(at_least > to - from && at_least <= 16 + 4096);
                if to == input.len() {
                    return told;
                }
                to = to.saturating_add(piece).min(input.len());
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
