//! If this fails, a spool that an earlier version left cannot be read any more, or not be continued.
//!
//! The fixture was written by a server of format version 1: eighty lines, then a stop; eighty more, then a kill.

use std::path::Path;

use bbq_spool::{Cursor, GroupRead, LaneReader};

use crate::support::{CrashDisk, PowerDisk, directory, made, open, put, read_all};

const SEGMENTS: [&str; 2] = ["sealed", "unsealed"];
/// What its segments were made with.
const SEGMENT_BYTES: usize = 64 * 1024;

fn lines(reader: &mut LaneReader) -> Vec<String> {
    let mut lines = Vec::new();
    let mut take = |entry: &bbq_spool::Entry<'_>| {
        assert_eq!(entry.source, "lines+tcp://127.0.0.1:17991");
        lines.extend(entry.batch.records().map(|record| String::from_utf8(record.to_vec()).unwrap()));
    };
    loop {
        match reader.read(&mut take).unwrap() {
            GroupRead::Group { lost, .. } => assert_eq!(lost, 0),
            GroupRead::Lost(lost) => assert_eq!(lost.records, 0),
            GroupRead::CaughtUp => return lines,
        }
    }
}

#[test]
fn what_version_1_wrote_is_read_and_continued() {
    let disk = CrashDisk::new(1);
    drop(open(&disk, 1));
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1");
    let mut start = 0;
    for name in SEGMENTS {
        let mut bytes = std::fs::read(fixture.join(name)).unwrap();
        let length = bytes.len();
        if name == "unsealed" {
            bytes.resize(SEGMENT_BYTES, 0);
        }
        disk.put(&directory().join(format!("spool/lane-0/{start:020}.seg")), &bytes);
        start += length;
    }
    let expected: Vec<String> = (1..=2)
        .flat_map(|run| (1..=4).flat_map(move |i| (1..=20).map(move |line| format!("line {run} {i} {line}"))))
        .collect();
    for _ in 0..2 {
        let spool = open(&disk, 1);
        assert_eq!(spool.recovered().records, 160);
        assert_eq!(lines(&mut spool.readers(&Cursor::default())[0]), expected);
        assert_eq!(spool.quarantined(), 0);
        spool.close();
    }
    let spool = open(&disk, 1);
    let end = spool.ends();
    let more = made(1, 10);
    put(&spool, 0, &more);
    let mut reader = spool.readers(&Cursor { places: end, ..Cursor::default() }).swap_remove(0);
    assert_eq!(read_all(&mut reader).batches, [more]);
}
