//! Batches on their way into a lane and, from its segments, out again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bbq_spool::{
    Cursor, DiskStorage, Entry, Envelope, GroupRead, Lane, NameMark, Progress, Spool, SpoolOptions,
};
use bbq_wire::{Batch, BatchBuilder, Peer};

use crate::batch::build;
use crate::counted;

/// Less than a group: the writer sleeps meanwhile.
const BATCHES: u64 = 200;
/// How long the writer may take for a group; it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn append() {
    let directory = tempfile::tempdir().expect("a directory");
    let spool = open(directory.path());
    let lane = &spool.lanes()[0];
    let mut builder = BatchBuilder::new();
    let batch = build(&mut builder, 1);
    // Both of its buffers are there once it has written two groups.
    for _ in 0..2 {
        append_durably(&spool.progress(), lane, batch);
    }
    counted(|| {
        for _ in 0..BATCHES {
            append_one(lane, batch, false);
        }
    });
    spool.close();
}

pub(crate) fn read() {
    let directory = tempfile::tempdir().expect("a directory");
    let spool = open(directory.path());
    let lane = &spool.lanes()[0];
    let mut builder = BatchBuilder::new();
    let batch = build(&mut builder, 1);
    for _ in 0..BATCHES {
        append_one(lane, batch, false);
    }
    append_durably(&spool.progress(), lane, batch);
    let mut readers = spool.readers(&Cursor::default());
    let reader = readers.first_mut().expect("one lane");
    let mut bytes = 0;
    counted(|| {
        let mut deliver = |entry: &Entry<'_>| {
            bytes += entry.batch.records().map(<[u8]>::len).sum::<usize>();
        };
        while reader.read(&mut deliver).expect("it reads") != GroupRead::CaughtUp {}
    });
    assert!(bytes > 0, "nothing was read");
    spool.close();
}

fn open(directory: &Path) -> Spool {
    let sources = vec!["lines".into()];
    let options = SpoolOptions {
        flush_interval: Duration::from_secs(3600),
        hot_bytes_max: 0,
        ..SpoolOptions::new(directory.to_owned(), 1, sources)
    };
    Spool::open(Arc::new(DiskStorage), &options).expect("a new spool")
}

/// Returns its group.
fn append_one(lane: &Lane, batch: &[u8], urgent: bool) -> u64 {
    let header = Batch::peek(batch).ok().flatten().expect("it is a batch");
    let envelope = Envelope { source: 0, received_ns: 1, peer: Peer::Unnamed, name_mark: NameMark::NOBODY };
    lane.append(&envelope, &header, batch, urgent).expect("it has room")
}

fn append_durably(progress: &Progress, lane: &Lane, batch: &[u8]) {
    let group = append_one(lane, batch, true);
    loop {
        let seen = progress.generation();
        if lane.durable().group >= group {
            return;
        }
        progress.wait(seen, PATIENCE);
        assert_ne!(progress.generation(), seen, "the disk does nothing");
    }
}
