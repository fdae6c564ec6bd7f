//! A segment: a file of records.
//!
//! ```text
//! header   "BBQR" | version 3 (u32) | stream (16) | first record (u64) | base (u64) | CRC-32C of all that stands before (u32) | 0
//! records  as `record` draws them
//! ```
//!
//! Numbers are little-endian. Record n is number n - base of the stream. Segments of earlier versions are read, but not appended to: in
//! version 2 the records' checksums are without numbers; in version 1 the header also ends behind `first record`, and the base is 0. The
//! file name is the first record's number, so that names sort as numbers do. A segment that was reset keeps its name.

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
/// The suffix of a damaged segment that was set aside.
const DAMAGED_SUFFIX: &str = "damaged";
/// No sender reaches this number: at a thousand million records a second that takes 290 years.
const RECORD_MAX: u64 = 1 << 63;

pub(crate) struct Segment {
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    /// Whether the version is an earlier one. Nothing is appended to such a segment.
    pub(super) is_earlier: bool,
    /// Whether a part of the segment cannot be read. A damaged segment is never reset, so that a person can still examine it.
    is_damaged: AtomicBool,
    /// A segment that was reset has the same file. The file stays in the page cache: `send` does not wait for the disk, and batches are
    /// read from it.
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

/// The first record of a segment, and its stream.
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

    /// Returns the header, its size and its version. `Err` says what is wrong.
    fn decode(bytes: &[u8]) -> Result<(SegmentHeader, usize, u32), &'static str> {
        let small =
            |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_le_bytes);
        let number = |at: usize| u64::from(small(at)) | u64::from(small(at + 4)) << 32;
        let stream = StreamId(bytes.get(8..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default());
        if !bytes.starts_with(&MAGIC) {
            return Err("it does not begin with the header of a segment");
        }
        let (header, header_bytes) = match small(4) {
            VERSION_1 => (SegmentHeader { stream, first: number(24), base: 0 }, HEADER_1_BYTES),
            // Later versions are checked, too: every version from 2 on has the checksum at the same place.
            _ if bytes.len() < HEADER_BYTES || small(HEADER_CRC_AT) != crc32c(&bytes[..HEADER_CRC_AT]) => {
                return Err("the checksum of its header is wrong");
            }
            VERSION_2 | VERSION => {
                (SegmentHeader { stream, first: number(24), base: number(32) }, HEADER_BYTES)
            }
            later => return Ok((SegmentHeader { stream, first: 0, base: 0 }, HEADER_BYTES, later)),
        };
        // Version 1 has no checksum.
        if header.first <= header.base || header.first > RECORD_MAX {
            return Err("the numbers in its header are impossible");
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
    pub(super) fn path_of(directory: &Path, header: SegmentHeader) -> PathBuf {
        directory.join(format!("{:020}.{SUFFIX}", header.first))
    }

    pub(super) fn create(
        storage: &dyn Storage,
        directory: &Path,
        header: SegmentHeader,
    ) -> io::Result<Segment> {
        let path = Segment::path_of(directory, header);
        // An existing file of this name has no whole header: its process died before the first record.
        let file = storage.open(&path, OpenMode::Empty)?;
        file.stay_in_cache();
        if let Err(error) = file.write_all_at(0, &header.encode()) {
            // No other code would ever remove this file.
            let _removed = storage.remove(&path);
            return Err(error);
        }
        Ok(Segment { path, header, is_earlier: false, is_damaged: AtomicBool::new(false), file: file.into() })
    }

    /// Empties the file and writes a new header. If the file system writes in place, this needs no free space. After a failure, nothing
    /// may be appended until another reset succeeds.
    pub(super) fn reset(&self, header: SegmentHeader) -> io::Result<Segment> {
        // One write, so that a killed process never leaves the new header in front of an old record.
        let mut bytes = header.encode();
        bytes.resize(HEADER_BYTES + RECORD_HEADER_BYTES, 0);
        self.file.write_all_at(0, &bytes)?;
        self.file.set_len(HEADER_BYTES as u64)?;
        let (path, file) = (self.path.clone(), Arc::clone(&self.file));
        Ok(Segment { path, header, is_earlier: false, is_damaged: AtomicBool::new(false), file })
    }

    /// Opens a segment. Returns it with the size of its header.
    pub(super) fn open(storage: &dyn Storage, path: &Path) -> io::Result<Found<(Segment, u64)>> {
        // The file exists, and the mode makes sure that it can be written.
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
            return Ok(Found::Empty);
        }
        let (header, header_bytes, version) = match SegmentHeader::decode(header) {
            Ok((header, header_bytes, version @ VERSION_1..=VERSION)) => {
                (header, header_bytes as u64, version)
            }
            Ok((.., later)) => {
                let text = format!("version {later}, of a later release; this one reads up to {VERSION}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Err(why) => return Ok(Found::Damaged(why)),
        };
        let is_earlier = version < VERSION;
        let (path, is_damaged) = (path.to_owned(), AtomicBool::new(false));
        let segment = Segment { path, header, is_earlier, is_damaged, file: file.into() };
        Ok(Found::Segment((segment, header_bytes)))
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    pub(super) fn set_damaged(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// Removes the file from the spool when every record is acknowledged: deletes it, or sets it aside if it is damaged.
    pub(super) fn remove(&self, storage: &dyn Storage) -> io::Result<()> {
        if self.is_damaged() { set_aside(storage, &self.path).map(drop) } else { storage.remove(&self.path) }
    }

    /// Fills the buffer from an offset; reads less only at the end of the file.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    /// Cuts the file to this size.
    pub(super) fn cut(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    pub(super) fn bytes(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// Writes an encoded record. If that fails, removes what was written of it.
    pub(super) fn append(&self, record: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(offset, record).inspect_err(|_| {
            // If this fails, too, the next record overwrites the rest, or the next start finds a damaged record.
            let _cut = self.file.set_len(offset);
        })
    }
}

/// What the file of a segment holds.
pub(super) enum Found<T> {
    /// No header: the process died before the first record.
    Empty,
    /// A header that cannot be read, so that the numbers of the records are unknown. The text says why.
    Damaged(&'static str),
    Segment(T),
}

/// Renames a damaged segment, as a person may still want its records. Returns the new name.
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
