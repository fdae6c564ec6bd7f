//! Whatever is on the disk, a spool opens, is read to its end, takes more, and hands that on; and what `bbq spool check` reads
//! comes to an end. The input is a program that writes segments: pieces of files, each checksum made to fit unless it says not.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use bbq_fuzz::MemoryDisk;
use bbq_spool::format::{Binding, Envelope, GROUP_FRAME_BYTES, GroupFrame, NameMark, SegmentHeader, Sources};
use bbq_spool::{Cursor, GroupRead, LanePlace, Spool, SpoolOptions, Step, SteppedTime, Storage, inspect};
use bbq_wire::batch::BatchIdentity;
use bbq_wire::{BatchBuilder, BatchHeader, Compression, Peer, SourceKind, StreamId};
use libfuzzer_sys::fuzz_target;

/// Pieces of one file; segments of one run.
const PIECES_MAX: usize = 24;

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Small, or near where sums go wrong.
    fn number(&mut self) -> u64 {
        let kind = self.byte();
        let low = u64::from(self.byte()) | u64::from(self.byte()) << 8;
        match kind % 8 {
            0 => 0,
            1 => u64::MAX - low,
            2 => (1 << 63) - low,
            3 => (1 << 62) + low,
            4 => (1 << 61) - low,
            5 => u64::from(u32::MAX) + low,
            _ => low,
        }
    }

    /// Mostly what fits, at times another.
    fn or(&mut self, fits: u64) -> u64 {
        if self.byte() < 200 { fits } else { self.number() }
    }
}

fn batch(first_sequence: u64, messages: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    (0..messages).for_each(|number| builder.push(&[b'm'; 20][..number % 20]));
    let identity = BatchIdentity {
        stream: StreamId([7; 16]),
        first_sequence,
        base_time_ns: 1,
        source: SourceKind::Bbq,
        compression: Compression::None,
    };
    builder.finish(&identity).map(<[u8]>::to_vec).unwrap_or_default()
}

fn segment(input: &mut Input<'_>, start: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let (mut frame_at, mut tag, mut entries) = (None, 0, 0);
    for _ in 0..PIECES_MAX {
        let position = start.wrapping_add(bytes.len() as u64);
        match input.byte() % 8 {
            0 => {
                let header = SegmentHeader {
                    lane: 0,
                    position: input.or(position),
                    first_record: input.number(),
                    created_ns: 0,
                    allocated: input.or(65_536),
                    sources: Sources::new(["fuzz".to_owned()]),
                };
                bytes.extend_from_slice(&header.encode());
            }
            1 | 2 => {
                tag = u64::from(input.byte() % 3);
                frame_at = Some(bytes.len());
                entries = 0;
                bytes.resize(bytes.len() + GROUP_FRAME_BYTES, 0);
            }
            3 | 4 => {
                let batch = batch(input.number().clamp(1, 1 << 62), 1 + usize::from(input.byte() % 40));
                let says = input.or(batch.len() as u64) as u32;
                let crc = u32::from_le_bytes([batch[4], batch[5], batch[6], batch[7]]);
                let envelope = Envelope {
                    source: u16::from(input.byte() % 3),
                    received_ns: 5,
                    peer: Peer::Unnamed,
                    name_mark: NameMark::NOBODY,
                };
                bytes.extend_from_slice(&envelope.encode(&Binding {
                    batch_bytes: says,
                    batch_crc: crc,
                    tag,
                }));
                bytes.extend_from_slice(&batch);
                entries += 1;
            }
            5 => {
                // Ends the group: its frame says what came since, or something else.
                if let Some(at) = frame_at.take() {
                    let body = (bytes.len() - at - GROUP_FRAME_BYTES) as u64;
                    let padded = bytes.len().next_multiple_of(4096);
                    let frame = GroupFrame {
                        bytes: input.or(body) as u32,
                        entries: input.or(entries) as u32,
                        position: input.or(start.wrapping_add(at as u64)),
                        first_record: input.number(),
                        records: input.number() as u32,
                        padding: input.or((padded - bytes.len()) as u64) as u32,
                        tag,
                    };
                    bytes.resize(padded, 0);
                    frame.encode(&mut bytes[at..]);
                }
            }
            6 => {
                let count = usize::from(input.byte());
                bytes.extend(input.0.iter().take(count));
            }
            _ => {
                if input.0.is_empty() {
                    break;
                }
                let at = input.number() as usize % bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (input.byte() % 8);
                }
            }
        }
    }
    if input.byte() % 2 == 0 {
        bytes.resize(65_536.max(bytes.len()), 0);
    }
    bytes
}

fn read_to_end(spool: &Spool, cursor: &Cursor) -> u64 {
    let mut records = 0;
    for mut reader in spool.readers(cursor) {
        for step in 0.. {
            assert!(step < 5000, "the reader does not get on at {:?}", reader.place());
            let read = reader.read(&mut |entry| records += entry.batch.records().count() as u64);
            if matches!(read, Ok(GroupRead::CaughtUp)) {
                break;
            }
        }
    }
    records
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let disk = MemoryDisk::default();
    let data = Path::new("/data");
    let mut start = 0;
    for _ in 0..1 + input.byte() % 3 {
        start = if input.byte() % 4 == 0 { input.number() } else { start };
        let bytes = segment(&mut input, start);
        disk.put(&data.join(format!("spool/lane-0/{start:020}.seg")), &bytes);
        start = start.wrapping_add(bytes.len() as u64);
    }
    let place = LanePlace { lane: 0, position: input.number(), record: input.number() };
    let cursor = Cursor { places: vec![place], ..Cursor::default() };
    if let Ok(lanes) = inspect::lanes(&disk, data) {
        for lane in lanes {
            lane.read(&disk, &mut |_, _| Ok(())).expect("a disk that is well");
        }
    }
    let storage: Arc<dyn Storage> = Arc::new(disk);
    let mut options = SpoolOptions::new(data.to_owned(), 1, vec!["fuzz".into()]);
    options.segment_bytes = 65_536;
    let time = Arc::new(SteppedTime::default());
    let spool = Spool::open_stepped(storage, &options, &time).expect("no bytes on disk stop a start");
    read_to_end(&spool, &Cursor::default());
    read_to_end(&spool, &cursor);
    let before = Cursor { places: spool.ends(), ..Cursor::default() };
    let bytes = batch(1, 3);
    let header = bytes.first_chunk().and_then(|header| BatchHeader::decode(header).ok()).expect("a batch");
    let envelope = Envelope { source: 0, received_ns: 1, peer: Peer::Unnamed, name_mark: NameMark::NOBODY };
    spool.lanes()[0].append(&envelope, &header, &bytes, true).expect("there is room");
    for _ in 0..10 {
        if matches!(spool.step(0), Step::Ended(_)) {
            break;
        }
    }
    spool.close();
    let ends = spool.ends();
    let read = read_to_end(&spool, &before);
    assert_eq!(read, 3, "what came last is read, from {before:?} to {ends:?}");
    spool.retire(&spool.ends());
    while spool.drop_oldest(&spool.ends()) {}
});
