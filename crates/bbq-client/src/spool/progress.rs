//! The file that saves the progress of a destination: what it has acknowledged, what was ever sent to it, and the stream in which its
//! servers know the records.
//!
//! ```text
//! two slots, at 0 and 512, written in turn; the valid one with the higher generation counts
//!   "BBQP" | CRC-32C of all that follows (u32) | version 2 (u32) | server (u32) | generation (u64)
//!   stream (16) | base (u64) | stored (16)    the server's stream instead of the segments' `stored`; zeros: none
//!   acknowledged (u64) | sent (u64) | epoch (u64) | boot (16)
//! behind each slot, since 2026-12; earlier releases do not read it, and write only the slot
//!   "BBQI" | CRC-32C of all that follows (u32) | generation of the slot (u64) | inode (u64) | created, Unix nanoseconds (u64)
//!   first record of the last segment (u64)
//! ```
//!
//! Numbers are little-endian; numbers of records are the sender's own. `server` is the id of the server that sent `acknowledged`
//! ([`crate::ServerAddress::id`]); 0 is unknown, as in older files. Version 1 was the acknowledged number alone: twenty decimal digits
//! and a line feed.
//!
//! The file is written in place and never synced. It is correct after any end of the process, but may be old or damaged after a power
//! failure. `boot` tells whether the system was restarted.
//!
//! `inode` and `created` say which file this is. In a copy of the spool, or in one that was restored from a backup, they are those of
//! another file: the records that follow in the original may have the numbers that follow here. A sender that ends in the middle of a write
//! may leave a slot without them; then those behind the other slot count, which are of the same file.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bbq_storage::{FileIdentity, OpenMode, Storage, StorageFile};
use bbq_wire::StreamId;
use bbq_wire::batch::crc32c;

use super::full::is_full;
use crate::environment::Boot;
use crate::numbering::Numbering;

/// The prefix of file names if each server has its own file.
const PREFIX: &str = "acknowledged.";
const MAGIC: [u8; 4] = *b"BBQP";
const VERSION: u32 = 2;
const SLOT_BYTES: usize = 104;
const ORIGIN_MAGIC: [u8; 4] = *b"BBQI";
const ORIGIN_BYTES: usize = 40;
/// The slot, and what stands behind it.
const WHOLE_BYTES: usize = SLOT_BYTES + ORIGIN_BYTES;
/// A disk writes and loses whole sectors, so the two slots share none.
const SLOT_DISTANCE: u64 = 512;
/// Both slots; nothing behind them is read.
const FILE_BYTES: usize = SLOT_DISTANCE as usize + WHOLE_BYTES;
/// The checksum covers the bytes from here on.
const CRC_FROM: usize = 8;
/// No number of a record and no epoch is higher, except in a damaged file.
const NUMBER_MAX: u64 = 1 << 62;
const NO_STREAM: StreamId = StreamId([0; 16]);

/// A stream that servers have instead of the one in the segments' headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplacedStream {
    pub(super) stream: StreamId,
    pub(super) base: u64,
    /// The stream in the segments' headers.
    pub(super) stored: StreamId,
}

/// Which file of the file system it is: its inode number, and when it was created.
pub(super) type Origin = (u64, u64);

/// The content of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SavedProgress {
    pub(super) replaced: Option<ReplacedStream>,
    pub(super) acknowledged: u64,
    /// The id of the server that sent `acknowledged`; 0 if unknown.
    pub(super) server: u32,
    /// The last record that may have been sent in the current stream.
    pub(super) sent: u64,
    pub(super) epoch: u64,
    pub(super) boot: Boot,
    pub(super) generation: u64,
    /// The file that this was written to; `None` if unknown.
    pub(super) origin: Option<Origin>,
    /// The first record of the last segment that was begun; 0 if unknown.
    pub(super) segment: u64,
}

impl SavedProgress {
    /// Whether a file with this content is a copy of the file that the content was written to, or was restored.
    fn is_copy_in(&self, file: FileIdentity) -> bool {
        self.origin.is_some_and(|origin| origin != (file.inode, file.created_ns) || !file.is_as_written)
    }

    /// The slot, and what stands behind it.
    fn encode(&self) -> [u8; WHOLE_BYTES] {
        let mut whole = [0; WHOLE_BYTES];
        whole[..SLOT_BYTES].copy_from_slice(&self.encode_slot());
        let (inode, created_ns) = self.origin.unwrap_or_default();
        let numbers = [self.generation, inode, created_ns, self.segment];
        for (place, number) in whole[SLOT_BYTES + CRC_FROM..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c(&whole[SLOT_BYTES + CRC_FROM..]);
        whole[SLOT_BYTES..SLOT_BYTES + 4].copy_from_slice(&ORIGIN_MAGIC);
        whole[SLOT_BYTES + 4..SLOT_BYTES + CRC_FROM].copy_from_slice(&crc.to_le_bytes());
        whole
    }

    /// Reads what stands behind the slot. An earlier release that wrote the slot has left what a later one wrote there.
    fn add_origin(&mut self, behind: &[u8]) {
        let Some(behind) = behind.first_chunk::<ORIGIN_BYTES>() else { return };
        let number = |at: usize| behind[at..].first_chunk::<8>().copied().map_or(0, u64::from_le_bytes);
        if behind[..4] != ORIGIN_MAGIC
            || number(4) as u32 != crc32c(&behind[CRC_FROM..])
            || number(8) != self.generation
        {
            return;
        }
        self.origin = Some((number(16), number(24))).filter(|origin| *origin != Origin::default());
        self.segment = number(32);
    }

    fn encode_slot(&self) -> [u8; SLOT_BYTES] {
        let replaced =
            self.replaced.unwrap_or(ReplacedStream { stream: NO_STREAM, base: 0, stored: NO_STREAM });
        let mut slot = [0; SLOT_BYTES];
        let mut at = CRC_FROM;
        let mut put = |bytes: &[u8]| {
            slot[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&VERSION.to_le_bytes());
        put(&self.server.to_le_bytes());
        put(&self.generation.to_le_bytes());
        put(&replaced.stream.0);
        put(&replaced.base.to_le_bytes());
        put(&replaced.stored.0);
        for number in [self.acknowledged, self.sent, self.epoch] {
            put(&number.to_le_bytes());
        }
        put(&self.boot);
        slot[..4].copy_from_slice(&MAGIC);
        let crc = crc32c(&slot[CRC_FROM..]);
        slot[4..CRC_FROM].copy_from_slice(&crc.to_le_bytes());
        slot
    }

    fn decode(whole: &[u8]) -> Option<SavedProgress> {
        let (slot, behind) = whole.split_first_chunk::<SLOT_BYTES>()?;
        let array = |at: usize| slot[at..].first_chunk::<16>().copied().unwrap_or_default();
        let number = |at: usize| slot[at..].first_chunk::<8>().copied().map_or(0, u64::from_le_bytes);
        let small = |at: usize| number(at) as u32;
        if slot[..4] != MAGIC || small(4) != crc32c(&slot[CRC_FROM..]) || small(8) != VERSION {
            return None;
        }
        if [40, 64, 72, 80].into_iter().any(|at| number(at) > NUMBER_MAX) {
            return None;
        }
        let replaced =
            ReplacedStream { stream: StreamId(array(24)), base: number(40), stored: StreamId(array(48)) };
        let mut saved = SavedProgress {
            server: small(12),
            generation: number(16),
            replaced: (replaced.stored != NO_STREAM).then_some(replaced),
            acknowledged: number(64),
            sent: number(72),
            epoch: number(80),
            boot: array(88),
            origin: None,
            segment: 0,
        };
        saved.add_origin(behind);
        Some(saved)
    }
}

/// What was found in a file.
pub(super) struct FoundProgress {
    pub(super) saved: SavedProgress,
    pub(super) is_new: bool,
    /// Whether the sender that wrote it wrote to another file.
    pub(super) is_copy: bool,
    /// Why its numbers cannot be trusted.
    pub(super) problem: Option<&'static str>,
}

fn read(bytes: &[u8]) -> FoundProgress {
    let slot = |at: u64| bytes.get(at as usize..).unwrap_or_default();
    let slots = [slot(0), slot(SLOT_DISTANCE)];
    let valid: Vec<SavedProgress> = slots.iter().filter_map(|slot| SavedProgress::decode(slot)).collect();
    let written = slots.iter().filter(|slot| slot.iter().take(SLOT_BYTES).any(|byte| *byte != 0)).count();
    let newest = valid.iter().max_by_key(|saved| saved.generation);
    if let Some(newest) = newest {
        let problem = (valid.len() < written).then_some("the progress of its servers is damaged");
        let origin = newest.origin.or_else(|| valid.iter().find_map(|saved| saved.origin));
        let saved = SavedProgress { origin, ..*newest };
        return FoundProgress { saved, is_new: false, is_copy: false, problem };
    }
    // Version 1, or damage. After damage, the server's welcome tells what it has.
    let text = std::str::from_utf8(bytes).unwrap_or_default().trim_end();
    let (acknowledged, problem) = match text.parse() {
        Ok(number) if number <= NUMBER_MAX => (number, "it is of an earlier release"),
        _ => (0, "the progress of its servers is damaged"),
    };
    let is_new = bytes.is_empty();
    FoundProgress {
        saved: SavedProgress { acknowledged, ..SavedProgress::default() },
        is_new,
        is_copy: false,
        problem: (!is_new).then_some(problem),
    }
}

fn file_name(name: &str) -> String {
    // Different names have different files.
    let safe: String = name.bytes().fold(String::new(), |mut safe, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => safe.push(char::from(byte)),
            _ => safe.push_str(&format!("%{byte:02x}")),
        }
        safe
    });
    if safe.is_empty() { "acknowledged".to_owned() } else { format!("{PREFIX}{safe}") }
}

/// The files of servers that are not in `names`, and the last record that each has acknowledged.
pub(super) fn of_others(
    storage: &dyn Storage,
    directory: &Path,
    names: &[String],
) -> io::Result<Vec<(String, u64)>> {
    let named: Vec<String> = names.iter().map(|name| file_name(name)).collect();
    let mut others = Vec::new();
    for name in storage.list(directory)? {
        if name.starts_with(PREFIX) && !named.contains(&name) {
            let content = storage.read(&directory.join(&name))?;
            others.push((name, read(&content).saved.acknowledged));
        }
    }
    Ok(others)
}

/// Why progress was not saved.
#[derive(Debug)]
pub(crate) enum NotSaved {
    /// The directory belongs to the next sender. This sender must not send records that the next one does not know of.
    Closed,
    /// The disk refuses writes, as it is full or read-only.
    Failed,
    /// A write failed.
    Error(io::Error),
}

impl NotSaved {
    fn of(error: io::Error) -> NotSaved {
        let is_lasting = is_full(&error) || error.kind() == io::ErrorKind::ReadOnlyFilesystem;
        if is_lasting { NotSaved::Failed } else { NotSaved::Error(error) }
    }
}

pub(crate) struct Progress {
    file: Box<dyn StorageFile>,
    state: Mutex<ProgressState>,
}

struct ProgressState {
    saved: SavedProgress,
    is_closed: bool,
}

impl Progress {
    /// `name` is empty if all servers share one progress.
    pub(super) fn open(
        storage: &dyn Storage,
        directory: &Path,
        name: &str,
    ) -> io::Result<(Progress, FoundProgress)> {
        let path = directory.join(file_name(name));
        let file = storage.open(&path, OpenMode::ExistingOrNew)?;
        let mut bytes = [0; FILE_BYTES];
        let length = file.read_at(0, &mut bytes)?;
        let mut read = read(&bytes[..length]);
        // A file system that cannot say which file it is has no copies that could be told.
        let now = file.identity().ok();
        read.is_copy = now.is_some_and(|now| read.saved.is_copy_in(now));
        read.saved.origin = now.map(|now| (now.inode, now.created_ns));
        let state = Mutex::new(ProgressState { saved: read.saved, is_closed: false });
        Ok((Progress { file, state }, read))
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Once this returns, the file never changes again.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
    }

    /// Saves the progress at the start of a sender. Writes both slots, so that their blocks are allocated before the disk becomes full. If
    /// the disk is full already, it has no room for records, either.
    pub(super) fn begin(&self, progress: SavedProgress) {
        let saved = &mut self.state().saved;
        *saved = SavedProgress { generation: saved.generation, origin: saved.origin, ..progress };
        let _written = self.write(saved).and_then(|()| self.write(saved));
    }

    fn write(&self, progress: &mut SavedProgress) -> io::Result<()> {
        progress.generation += 1;
        self.file.write_all_at(progress.generation % 2 * SLOT_DISTANCE, &progress.encode())
    }

    fn change(&self, change: impl FnOnce(&mut SavedProgress)) -> Result<(), NotSaved> {
        let mut state = self.state();
        if state.is_closed {
            return Err(NotSaved::Closed);
        }
        let mut changed = state.saved;
        change(&mut changed);
        if changed != state.saved {
            self.write(&mut changed).map_err(NotSaved::of)?;
            state.saved = changed;
        }
        Ok(())
    }

    /// Saves what a server has acknowledged; `server` is its id.
    pub(crate) fn acknowledged(&self, record: u64, server: u32) -> Result<(), NotSaved> {
        self.change(|progress| {
            if record >= progress.acknowledged {
                (progress.acknowledged, progress.server) = (record, server);
            }
        })
    }

    /// Saves that records up to this one are about to be sent.
    pub(crate) fn sending(&self, record: u64) -> Result<(), NotSaved> {
        let saved = self.change(|progress| progress.sent = progress.sent.max(record));
        if matches!(saved, Err(NotSaved::Failed)) {
            // They are sent all the same. What is saved next says so.
            let sent = &mut self.state().saved.sent;
            *sent = record.max(*sent);
        }
        saved
    }

    /// Saves that a segment begins with this record. A failure only means that the loss of that segment would not be noticed.
    pub(super) fn segment(&self, first: u64) {
        let _saved = self.change(|progress| progress.segment = first);
    }

    /// Saves the epoch of a connection that is about to begin.
    pub(crate) fn epoch(&self, epoch: u64) -> Result<(), NotSaved> {
        self.change(|progress| progress.epoch = epoch)
    }

    /// Saves that the destination has another stream than the segments' headers.
    pub(crate) fn replace_stream(&self, numbering: &Numbering) -> Result<(), NotSaved> {
        let Numbering { stream, base, stored, .. } = *numbering;
        self.change(|progress| {
            progress.replaced = Some(ReplacedStream { stream, base, stored });
            // Nothing was sent in the new stream yet.
            progress.sent = base;
        })
    }
}
