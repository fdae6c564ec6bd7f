//! Any bytes are a header, a frame or an envelope of a segment, or are none; what is one says the same when it is written
//! again. With the checksum made to fit.
#![no_main]

use bbq_spool::format::{Envelope, FRAME_MAGIC, GROUP_FRAME_BYTES, GroupFrame, SegmentHeader};
use bbq_wire::batch::crc32c;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((position, bytes)) = data.split_first_chunk::<8>() else { return };
    let position = u64::from_le_bytes(*position);
    check(bytes, position);
    for magic in [*b"BBQS", FRAME_MAGIC, Envelope::magic()] {
        let length = match magic {
            FRAME_MAGIC => GROUP_FRAME_BYTES,
            magic if magic == Envelope::magic() => 56,
            _ => bytes.len(),
        };
        if length < 56 && magic != FRAME_MAGIC || bytes.len() < length {
            continue;
        }
        let mut sealed = bytes[..length].to_vec();
        sealed[..4].copy_from_slice(&magic);
        if magic == *b"BBQS" {
            sealed[8..12].copy_from_slice(&(length as u32).to_le_bytes());
            sealed[12..16].copy_from_slice(&2_u32.to_le_bytes());
            sealed[24..32].copy_from_slice(&position.to_le_bytes());
        } else if magic == FRAME_MAGIC {
            sealed[16..24].copy_from_slice(&position.to_le_bytes());
        }
        let crc = crc32c(&sealed[8..]);
        sealed[4..8].copy_from_slice(&crc.to_le_bytes());
        check(&sealed, position);
    }
});

fn check(bytes: &[u8], position: u64) {
    if let Some(frame) = GroupFrame::decode(bytes, position) {
        assert!(frame.end() > position && frame.end_record() >= frame.first_record);
        let mut written = [0; GROUP_FRAME_BYTES];
        frame.encode(&mut written);
        assert_eq!(GroupFrame::decode(&written, position), Some(frame));
    }
    if let Some((envelope, binding)) = Envelope::decode(bytes) {
        assert_eq!(Envelope::decode(&envelope.encode(&binding)), Some((envelope, binding)));
    }
    if let Some(announced) = SegmentHeader::announced_bytes(bytes)
        && let Some(front) = bytes.get(..announced)
        && let Some(header) = SegmentHeader::decode(front, position)
    {
        assert!(header.sources.iter().all(|(name, _)| name.len() <= 3 * announced));
    }
}
