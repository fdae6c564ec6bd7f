//! Batches of 32 records of 100 bytes, as a client builds and a session verifies them.

use std::hint::black_box;

use bbq_wire::batch::{BatchIdentity, BatchLimits};
use bbq_wire::{Batch, BatchBuilder, Compression, SourceKind, StreamId};

use crate::counted;

const BATCHES: u64 = 200;
const RECORDS: u64 = 32;
const RECORD: [u8; 100] = [b'x'; 100];

/// The next batch of a builder whose buffers have grown.
pub(crate) fn build(builder: &mut BatchBuilder, first_sequence: u64) -> &[u8] {
    builder.clear();
    for _ in 0..RECORDS {
        builder.push(black_box(&RECORD));
    }
    let identity = BatchIdentity {
        stream: StreamId([7; 16]),
        first_sequence,
        base_time_ns: 1,
        source: SourceKind::Bbq,
        compression: Compression::None,
    };
    builder.finish(&identity).expect("it has records")
}

pub(crate) fn encode() {
    let mut builder = BatchBuilder::new();
    build(&mut builder, 1);
    counted(|| {
        for batch in 0..BATCHES {
            black_box(build(&mut builder, 1 + batch * RECORDS));
        }
    });
}

pub(crate) fn verify() {
    let mut builder = BatchBuilder::new();
    let batch = build(&mut builder, 1);
    let mut scratch = Vec::new();
    counted(|| {
        for _ in 0..BATCHES {
            let verified = Batch::verify(black_box(batch), BatchLimits::FORMAT, &mut scratch);
            black_box(verified.expect("it was built right"));
        }
    });
}
