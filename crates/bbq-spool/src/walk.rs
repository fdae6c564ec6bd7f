//! Iterates over the entries of a group, and skips damage.

use std::io;
use std::ops::Range;

use bbq_wire::Batch;
use bbq_wire::batch::BatchLimits;
use bbq_wire::limits::BATCH_HEADER_BYTES;
use memchr::memmem;

use crate::StorageFile;
use crate::format::{ENVELOPE_BYTES, Envelope, FRAME_MAGIC, GROUP_FRAME_BYTES, GroupFrame};
use crate::limits::BLOCK_BYTES;

/// The next item in a group.
pub(crate) enum Step<'a> {
    /// A batch with a valid checksum and structure.
    Entry {
        /// Offset behind it.
        end: usize,
        envelope: Envelope,
        batch: Batch<'a>,
    },
    /// Bytes that are not an entry, up to the next entry or the end.
    Damage { end: usize },
}

/// Reads the item at `offset` of the entries of the group with this tag; `None` at the end.
pub(crate) fn step<'a>(
    entries: &'a [u8],
    offset: usize,
    tag: u64,
    scratch: &'a mut Vec<u8>,
) -> Option<Step<'a>> {
    let rest = entries.get(offset..).filter(|rest| !rest.is_empty())?;
    // Checked before the scratch buffer is borrowed for the result.
    match valid_entry(rest, tag) {
        Some((envelope, batch_bytes)) => {
            let batch = &rest[ENVELOPE_BYTES..ENVELOPE_BYTES + batch_bytes];
            let end = offset + ENVELOPE_BYTES + batch_bytes;
            match Batch::verify(batch, BatchLimits::FORMAT, scratch) {
                Ok(batch) => Some(Step::Entry { end, envelope, batch }),
                Err(_) => Some(Step::Damage { end }),
            }
        }
        None => Some(Step::Damage { end: next_envelope(entries, offset + 1, tag) }),
    }
}

/// The envelope at the front of `rest` and the length of its batch, if both belong to the group with this tag.
fn valid_entry(rest: &[u8], tag: u64) -> Option<(Envelope, usize)> {
    let (envelope, binding) = Envelope::decode(rest)?;
    let batch_bytes = binding.batch_bytes as usize;
    let batch = rest.get(ENVELOPE_BYTES..ENVELOPE_BYTES + batch_bytes)?;
    let header = batch.first_chunk::<BATCH_HEADER_BYTES>()?;
    // A recycled file has older batches. They are valid by themselves, and may be at the offset of a new batch.
    let is_its_own = header[4..8] == binding.batch_crc.to_le_bytes();
    (binding.tag == tag && is_its_own).then_some((envelope, batch_bytes))
}

/// Reads the entry at `offset` of a group that this process wrote, and returns the offset behind it.
pub(crate) fn written_entry<'a>(
    entries: &'a [u8],
    offset: usize,
    tag: u64,
    scratch: &'a mut Vec<u8>,
) -> Option<(Envelope, Batch<'a>, usize)> {
    let rest = entries.get(offset..)?;
    let (envelope, batch_bytes) = valid_entry(rest, tag)?;
    let batch = Batch::verified_before(&rest[ENVELOPE_BYTES..ENVELOPE_BYTES + batch_bytes], scratch).ok()?;
    Some((envelope, batch, offset + ENVELOPE_BYTES + batch_bytes))
}

/// Reads to the end of the file, with zeros for unreadable blocks. Returns the number of bytes, and the unreadable ranges in
/// order.
///
/// # Errors
/// Shortages of the system. The file is not their cause.
pub(crate) fn read_readable(
    file: &dyn StorageFile,
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<Range<usize>>)> {
    let there = usize::try_from(file.len()?.saturating_sub(offset)).unwrap_or(usize::MAX);
    let there = there.min(buffer.len());
    let (mut at, mut unreadable) = (0, Vec::new());
    while at < there {
        // Up to the end of a block of the file.
        let block = BLOCK_BYTES - ((offset + at as u64) % BLOCK_BYTES as u64) as usize;
        let end = (at + block).min(there);
        match file.read_at(offset + at as u64, &mut buffer[at..end]) {
            Ok(0) => return Ok((at, unreadable)),
            Ok(read) => at += read,
            Err(error) if is_shortage(&error) => return Err(error),
            Err(_) => {
                buffer[at..end].fill(0);
                unreadable.push(at..end);
                at = end;
            }
        }
    }
    Ok((there, unreadable))
}

/// The offset of the next valid envelope, or the end.
fn next_envelope(entries: &[u8], from: usize, tag: u64) -> usize {
    let magic = Envelope::magic();
    let mut search = memmem::find_iter(entries.get(from..).unwrap_or_default(), &magic);
    search
        .find(|found| valid_entry(&entries[from + found..], tag).is_some())
        .map_or(entries.len(), |found| from + found)
}

/// The offset of the next group frame in `bytes`, which are at `position` of the lane.
pub(crate) fn next_frame(bytes: &[u8], position: u64) -> Option<(usize, GroupFrame)> {
    memmem::find_iter(bytes, &FRAME_MAGIC).find_map(|found| {
        let frame = GroupFrame::decode(&bytes[found..], position + found as u64)?;
        Some((found, frame))
    })
}

/// The frame's length as an index.
pub(crate) const FRAME: usize = GROUP_FRAME_BYTES;

/// Whether a later retry may succeed: the error is a shortage of the system, not a fault of the file.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN];
    error.raw_os_error().is_some_and(|code| passing.iter().any(|errno| errno.raw_os_error() == code))
}
