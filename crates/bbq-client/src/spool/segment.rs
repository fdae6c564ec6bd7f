//! One file of records.
//!
//! ```text
//! header   "BBQR" | version 3 (u32) | stream (16) | first record (u64) | base (u64) | CRC-32C of all that stands before (u32) | 0
//! records  as `record` draws them
//! ```
//!
//! Numbers are little-endian. Record n is number n - base of the stream. Earlier versions are still read, and not written to: 2 has no
//! numbers in its records' checksums, and the header of 1 ends behind the first record, and its base is 0. The file is named after its
//! first sequence, so that names sort as numbers do; after the first it ever had, if it was begun anew.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bbq_storage::{OpenMode, Storage, StorageFile, parent_of};
use bbq_wire::StreamId;
use bbq_wire::batch::crc32c;

use super::record::RECORD_HEADER_BYTES;

const MAGIC: [u8; 4] = *b"BBQR";
const VERSION: u32 = 3;
const VERSION_2: u32 = 2;
pub(super) const HEADER_BYTES: usize = 48;
const VERSION_1: u32 = 1;
const HEADER_1_BYTES: usize = 32;
/// Where a header's checksum stands.
const HEADER_CRC_AT: usize = 40;
const SUFFIX: &str = "records";
/// What a segment of which something cannot be read is called from then on.
const DAMAGED_SUFFIX: &str = "damaged";
/// No sender comes so far: 290 years at a thousand million a second.
const RECORD_MAX: u64 = 1 << 63;

pub(crate) struct Segment {
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    /// Of an earlier version, whose records' checksums have no numbers.
    is_earlier: bool,
    /// Something in it cannot be read.
    is_damaged: AtomicBool,
    /// The same for all that this file was begun anew as. It stays in the page cache: `send` does not wait for the disk, and batches
    /// are read from it meanwhile.
    file: Arc<dyn StorageFile>,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("path", &self.path)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// Which records a segment begins with, and what servers call them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) stream: StreamId,
    /// Number of its first record.
    pub(super) first: u64,
    /// Record n is number n - base of the stream; < `first`.
    pub(super) base: u64,
}

impl SegmentHeader {
    fn encode(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES + RECORD_HEADER_BYTES);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&self.stream.0);
        header.extend_from_slice(&self.first.to_le_bytes());
        header.extend_from_slice(&self.base.to_le_bytes());
        header.extend_from_slice(&crc32c(&header).to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        header
    }

    /// The header, its size and its version. `Err` says what is wrong.
    fn decode(bytes: &[u8]) -> Result<(SegmentHeader, usize, u32), &'static str> {
        let small =
            |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_le_bytes);
        let number = |at: usize| u64::from(small(at)) | u64::from(small(at + 4)) << 32;
        let stream = StreamId(bytes.get(8..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default());
        if !bytes.starts_with(&MAGIC) {
            return Err("it does not begin as a segment does");
        }
        let (header, header_bytes) = match small(4) {
            VERSION_1 => (SegmentHeader { stream, first: number(24), base: 0 }, HEADER_1_BYTES),
            // A later version is believed as well only when its checksum fits: every version from 2 on has it at the same place.
            _ if bytes.len() < HEADER_BYTES || small(HEADER_CRC_AT) != crc32c(&bytes[..HEADER_CRC_AT]) => {
                return Err("the checksum of its header does not fit");
            }
            VERSION_2 | VERSION => {
                (SegmentHeader { stream, first: number(24), base: number(32) }, HEADER_BYTES)
            }
            later => return Ok((SegmentHeader { stream, first: 0, base: 0 }, HEADER_BYTES, later)),
        };
        // Numbers that no sender reaches are damage, where no checksum tells.
        if header.first <= header.base || header.first > RECORD_MAX {
            return Err("its header's numbers cannot be");
        }
        Ok((header, header_bytes, small(4)))
    }
}

/// The segments of a directory, in order.
pub(super) fn paths(storage: &dyn Storage, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let names = storage.list(directory)?;
    let mut paths: Vec<PathBuf> = names.into_iter().map(|name| directory.join(name)).collect();
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX));
    paths.sort();
    Ok(paths)
}

impl Segment {
    /// The file of a segment with this header.
    pub(super) fn path_of(directory: &Path, header: SegmentHeader) -> PathBuf {
        directory.join(format!("{:020}.{SUFFIX}", header.first))
    }

    pub(super) fn create(
        storage: &dyn Storage,
        directory: &Path,
        header: SegmentHeader,
    ) -> io::Result<Segment> {
        let path = Segment::path_of(directory, header);
        // A file of this name has no whole header, or it would have been found: its process died before the first record.
        let file = storage.open(&path, OpenMode::Empty)?;
        file.stay_in_cache();
        if let Err(error) = file.write_all_at(0, &header.encode()) {
            // An empty file is none, but nobody would ever delete it.
            let _removed = storage.remove(&path);
            return Err(error);
        }
        Ok(Segment { path, header, is_earlier: false, is_damaged: AtomicBool::new(false), file: file.into() })
    }

    /// The same file without a record, for those from `header` on. Needs no room on the disk, where blocks are written in
    /// place. When it fails, nothing may be appended here any more until it is tried again and does not.
    pub(super) fn reset(&self, header: SegmentHeader) -> io::Result<Segment> {
        // In one write, so that no end of the process comes between: a new number, and no record behind it.
        let mut bytes = header.encode();
        bytes.resize(HEADER_BYTES + RECORD_HEADER_BYTES, 0);
        self.file.write_all_at(0, &bytes)?;
        self.file.set_len(HEADER_BYTES as u64)?;
        let (path, file) = (self.path.clone(), Arc::clone(&self.file));
        Ok(Segment { path, header, is_earlier: false, is_damaged: AtomicBool::new(false), file })
    }

    /// Opens the segment in a file.
    pub(super) fn open(storage: &dyn Storage, path: &Path) -> io::Result<Opened> {
        // It was found, so it is there; and it must be one that can be written to.
        let file = storage.open(path, OpenMode::ExistingOrNew)?;
        file.stay_in_cache();
        let bytes = file.len()?;
        let mut header = [0; HEADER_BYTES];
        let header = &mut header[..usize::try_from(bytes).unwrap_or(HEADER_BYTES).min(HEADER_BYTES)];
        let read = file.read_at(0, header)?;
        let header = &header[..read];
        if header.len() < HEADER_1_BYTES
            || (header.starts_with(&MAGIC) && header[4] != 1 && bytes < HEADER_BYTES as u64)
        {
            return Ok(Opened::Empty);
        }
        let (header, header_bytes, version) = match SegmentHeader::decode(header) {
            Ok((header, header_bytes, version @ VERSION_1..=VERSION)) => {
                (header, header_bytes as u64, version)
            }
            Ok((.., later)) => {
                let text = format!("version {later}, of a later release; this one reads up to {VERSION}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Err(why) => return Ok(Opened::Damaged(why)),
        };
        let is_earlier = version < VERSION;
        let (path, is_damaged) = (path.to_owned(), AtomicBool::new(false));
        let segment = Segment { path, header, is_earlier, is_damaged, file: file.into() };
        Ok(Opened::Segment(segment, header_bytes))
    }

    /// Whether it is of an earlier version, to which nothing is added.
    pub(super) fn is_earlier(&self) -> bool {
        self.is_earlier
    }

    /// Whether something in it cannot be read. It is not begun anew: what it has stays as it is.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Something in it cannot be read.
    pub(super) fn set_damaged(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// Takes its file out of the spool, as no server is owed any record of it: deletes it, or sets it aside if it is damaged.
    pub(super) fn remove(&self, storage: &dyn Storage) -> io::Result<()> {
        if self.is_damaged() { set_aside(storage, &self.path).map(drop) } else { storage.remove(&self.path) }
    }

    /// Reads so much at a place, less only at the end.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    /// Takes away what stands behind the last whole record.
    pub(super) fn cut(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    pub(super) fn bytes(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// Writes an encoded record; what was written of one that did not fit is taken back.
    pub(super) fn append(&self, record: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(offset, record).inspect_err(|_| {
            // What cannot be taken back either is overwritten by the next record, or found damaged at the next start.
            let _cut = self.file.set_len(offset);
        })
    }
}

/// What a segment's file is.
pub(super) enum Opened {
    /// Its process died before the first record.
    Empty,
    /// Its header cannot be read, and so nobody knows which records it has.
    Damaged(&'static str),
    /// A segment, and the bytes of its header.
    Segment(Segment, u64),
}

/// Gives a segment of which something cannot be read another name: a person may still want what is in it.
pub(super) fn set_aside(storage: &dyn Storage, path: &Path) -> io::Result<PathBuf> {
    let mut aside = path.with_extension(DAMAGED_SUFFIX);
    let taken = storage.list(parent_of(path))?;
    let is_taken =
        |aside: &Path| taken.iter().any(|name| aside.file_name().is_some_and(|aside| aside == &**name));
    for number in 1.. {
        if !is_taken(&aside) {
            break;
        }
        aside = path.with_extension(format!("{number}.{DAMAGED_SUFFIX}"));
    }
    storage.rename(path, &aside)?;
    Ok(aside)
}
