//! One file of records.
//!
//! ```text
//! header   "BBQR" | version 1 (u32) | stream (16) | first sequence (u64)
//! record   CRC-32C of all that follows (u32) | bytes (u32) | the bytes
//! ```
//!
//! Numbers are little-endian. The file is named after its first sequence, so that names sort as numbers do; after the first it
//! ever had, if it was begun anew.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_wire::StreamId;
use bbq_wire::batch::crc32c;
use bbq_wire::limits::MESSAGE_BYTES_MAX;

const MAGIC: [u8; 4] = *b"BBQR";
const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 8;
const CRC_BYTES: usize = 4;
const SUFFIX: &str = "records";
/// One read at recovery and of an extent.
const READ_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Segment {
    pub(super) path: PathBuf,
    pub(super) stream: StreamId,
    /// Number of its first record.
    pub(super) first: u64,
    /// The same for all that this file was begun anew as.
    file: Arc<File>,
}

/// Consecutive records of one segment.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: u64,
    /// Number of its first record.
    pub(crate) first: u64,
    pub(crate) records: u32,
}

impl Extent {
    /// With so many records.
    pub(crate) fn of(self, records: u32) -> Extent {
        Extent { records, ..self }
    }

    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.records) - 1
    }

    /// Reads its records from number `from` on.
    pub(crate) fn read(&self, from: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut reader = Reader::new(&self.segment.file, self.offset);
        for sequence in self.first..=self.last() {
            let Some(record) = reader.next()? else {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{}: record {sequence} is damaged", self.segment.path.display()),
                ));
            };
            if sequence >= from {
                take(record);
            }
        }
        Ok(())
    }
}

/// The segments of a directory, in order.
pub(super) fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn header(stream: StreamId, first: u64) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES + RECORD_HEADER_BYTES);
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&stream.0);
    header.extend_from_slice(&first.to_le_bytes());
    header
}

pub(super) fn encode(record: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; CRC_BYTES]);
    out.extend_from_slice(&(record.len() as u32).to_le_bytes());
    out.extend_from_slice(record);
    let crc = crc32c(&out[CRC_BYTES..]);
    out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
}

impl Segment {
    pub(super) fn create(directory: &Path, stream: StreamId, first: u64) -> io::Result<Segment> {
        let path = directory.join(format!("{first:020}.{SUFFIX}"));
        // A file of this name has no whole header, or it would have been found: its process died before the first record.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        if let Err(error) = file.write_all_at(&header(stream, first), 0) {
            // An empty file is none, but nobody would ever delete it.
            let _removed = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Segment { path, stream, first, file: Arc::new(file) })
    }

    /// The same file without a record, for those from number `first` on. Needs no room on the disk, where blocks are written in
    /// place. When it fails, nothing may be appended here any more until it is tried again and does not.
    pub(super) fn begin_anew(&self, first: u64) -> io::Result<Segment> {
        // In one write, so that no end of the process comes between: a new number, and no record behind it.
        let mut bytes = header(self.stream, first);
        bytes.resize(HEADER_BYTES + RECORD_HEADER_BYTES, 0);
        self.file.write_all_at(&bytes, 0)?;
        self.file.set_len(HEADER_BYTES as u64)?;
        Ok(Segment { path: self.path.clone(), stream: self.stream, first, file: Arc::clone(&self.file) })
    }

    /// Opens a segment and adds its extents of about `extent_bytes`, up to the first record that is not whole. `None` when not
    /// even its header is: its process died before the first record.
    pub(super) fn recover(
        path: &Path,
        extent_bytes: u64,
        extents: &mut Vec<Extent>,
    ) -> io::Result<Option<(Arc<Segment>, u64)>> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        let field = |at: usize| header[at..].first_chunk::<4>().copied().map_or(0, u32::from_le_bytes);
        if header[..4] != MAGIC {
            return Err(invalid("not a segment of a sender's spool"));
        }
        if field(4) != VERSION {
            return Err(invalid(&format!(
                "version {}, of a later release; this one reads {VERSION}",
                field(4)
            )));
        }
        let stream = StreamId(header[8..].first_chunk::<16>().copied().unwrap_or_default());
        let first = u64::from(field(24)) | u64::from(field(28)) << 32;
        let segment = Arc::new(Segment { path: path.to_owned(), stream, first, file: Arc::new(file) });
        let mut at = HEADER_BYTES as u64;
        let mut reader = Reader::new(&segment.file, at);
        let mut open = Extent { segment: Arc::clone(&segment), offset: at, first, records: 0 };
        while let Some(record) = reader.next()? {
            at += (RECORD_HEADER_BYTES + record.len()) as u64;
            open.records += 1;
            if at - open.offset >= extent_bytes {
                let next = Extent { offset: at, first: open.last() + 1, records: 0, ..open.clone() };
                extents.push(std::mem::replace(&mut open, next));
            }
        }
        drop(reader);
        if open.records > 0 {
            extents.push(open);
        }
        Ok(Some((segment, at)))
    }

    /// Takes away what stands behind the last whole record.
    pub(super) fn cut(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    pub(super) fn bytes(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    /// Writes an encoded record; what was written of one that did not fit is taken back.
    pub(super) fn append(&self, record: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(record, offset).inspect_err(|_| {
            // What cannot be taken back either is overwritten by the next record, or found damaged at the next start.
            let _cut = self.file.set_len(offset);
        })
    }
}

/// Reads records one after the other, until the first that is not whole.
struct Reader<'a> {
    file: &'a File,
    /// Of the end of `buffer` in the file.
    offset: u64,
    /// `buffer[taken..]` is not read yet.
    buffer: Vec<u8>,
    taken: usize,
}

impl Reader<'_> {
    fn new(file: &File, offset: u64) -> Reader<'_> {
        Reader { file, offset, buffer: Vec::new(), taken: 0 }
    }

    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if !self.fill(RECORD_HEADER_BYTES)? {
            return Ok(None);
        }
        let header = &self.buffer[self.taken..];
        let field = |at: usize| header[at..].first_chunk::<4>().copied().map_or(0, u32::from_le_bytes);
        let (crc, bytes) = (field(0), field(CRC_BYTES));
        let whole = RECORD_HEADER_BYTES + bytes as usize;
        if bytes > MESSAGE_BYTES_MAX || !self.fill(whole)? {
            return Ok(None);
        }
        let record = self.taken + RECORD_HEADER_BYTES..self.taken + whole;
        // The length counts, too: zeros are no record.
        if crc32c(&self.buffer[self.taken + CRC_BYTES..self.taken + whole]) != crc {
            return Ok(None);
        }
        self.taken += whole;
        Ok(Some(&self.buffer[record]))
    }

    /// Makes `bytes` available; `false` at the end of the file.
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        if self.buffer.len() - self.taken >= bytes {
            return Ok(true);
        }
        self.buffer.drain(..self.taken);
        self.taken = 0;
        while self.buffer.len() < bytes {
            let filled = self.buffer.len();
            self.buffer.resize(filled + READ_BYTES.max(bytes - filled), 0);
            let read = match self.file.read_at(&mut self.buffer[filled..], self.offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
                Ok(0) => {
                    self.buffer.truncate(filled);
                    return Ok(false);
                }
                Ok(read) => read,
            };
            self.buffer.truncate(filled + read);
            self.offset += read as u64;
        }
        Ok(true)
    }
}
