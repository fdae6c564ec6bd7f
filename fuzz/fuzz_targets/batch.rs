//! Any bytes are a batch or an error, as they are and under a checksum that fits; what is a batch keeps its promises.
#![no_main]

use bbq_wire::Batch;
use bbq_wire::batch::{BatchLimits, crc32c};
use libfuzzer_sys::fuzz_target;

const LIMITS: BatchLimits = BatchLimits { body_bytes_max: 1 << 20, message_bytes_max: 1 << 16 };

fuzz_target!(|data: &[u8]| {
    check(data);
    // Past the checksum, which chance does not find: magic, size and version as they must be.
    if data.len() > 64 {
        let mut bytes = data.to_vec();
        bytes[..4].copy_from_slice(b"BBQB");
        bytes[8..12].copy_from_slice(&(data.len() as u32 - 64).to_le_bytes());
        bytes[12] = 1;
        bytes[15] = 0;
        bytes[60..64].fill(0);
        let crc = crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        check(&bytes);
    }
});

fn check(bytes: &[u8]) {
    let mut scratch = Vec::new();
    if let Ok(batch) = Batch::verify(bytes, LIMITS, &mut scratch) {
        let records = batch.records().inspect(|record| assert!(record.len() <= 1 << 16)).count();
        assert_eq!(records, batch.header.records as usize);
        let peers: u64 = batch.peers().map(|(records, _)| u64::from(records)).sum();
        assert!(peers == 0 || peers == records as u64);
        assert!(batch.header.total_bytes() <= bytes.len());
    }
    assert!(scratch.capacity() <= LIMITS.body_bytes_max as usize);
}
