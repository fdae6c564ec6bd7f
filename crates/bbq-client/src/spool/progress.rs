//! The file that remembers how far a server is: what it has acknowledged, what it was ever sent, and the stream that it knows
//! the records by.
//!
//! ```text
//! two slots, at 0 and 512, written in turn; the valid one with the higher generation holds
//!   "BBQP" | CRC-32C of all that follows (u32) | version 2 (u32) | server (u32) | generation (u64)
//!   stream (16) | base (u64) | stored (16)    the server's stream instead of the segments' `stored`; zeros: none
//!   acknowledged (u64) | sent (u64) | epoch (u64) | boot (16)
//! ```
//!
//! Numbers are little-endian, and those of records are the sender's own. `server` says whose `acknowledged` is
//! ([`crate::ServerAddress::id`]); 0 is unknown, as it is in files of before. Before that, version 1 was a decimal number of twenty
//! digits and a line feed: what was acknowledged.
//!
//! Written in place and never synced: whole whenever the process ends, old or damaged after a power failure. `boot` tells these
//! apart.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bbq_storage::{OpenMode, Storage, StorageFile};
use bbq_wire::StreamId;
use bbq_wire::batch::crc32c;

use crate::environment::Boot;

/// What the file of servers of this name begins with, if each has its own.
const OF_ONE: &str = "acknowledged.";
const MAGIC: [u8; 4] = *b"BBQP";
const VERSION: u32 = 2;
const SLOT_BYTES: usize = 104;
/// A disk writes and loses whole sectors: the two slots share none.
const SLOT_DISTANCE: u64 = 512;
/// What is read of a file: both slots. What stands behind them is not ours.
const FILE_BYTES: usize = SLOT_DISTANCE as usize + SLOT_BYTES;
/// Where what the checksum covers begins.
const CRC_FROM: usize = 8;
/// No number of a record and no epoch is higher; a file that says so is damaged.
const NUMBER_MAX: u64 = 1 << 62;
const NO_STREAM: StreamId = StreamId([0; 16]);

/// A stream that a server has instead of the one that segments name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renamed {
    pub(super) stream: StreamId,
    pub(super) base: u64,
    /// The stream of the segments.
    pub(super) stored: StreamId,
}

/// What stands in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) renamed: Option<Renamed>,
    pub(super) acknowledged: u64,
    /// Whose that is; 0: unknown.
    pub(super) server: u32,
    /// The last record that was given to a connection of the present stream. Written before it is.
    pub(super) sent: u64,
    pub(super) epoch: u64,
    pub(super) boot: Boot,
    pub(super) generation: u64,
}

impl Known {
    fn encode(&self) -> [u8; SLOT_BYTES] {
        let renamed = self.renamed.unwrap_or(Renamed { stream: NO_STREAM, base: 0, stored: NO_STREAM });
        let mut slot = [0; SLOT_BYTES];
        let mut at = CRC_FROM;
        let mut put = |bytes: &[u8]| {
            slot[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&VERSION.to_le_bytes());
        put(&self.server.to_le_bytes());
        put(&self.generation.to_le_bytes());
        put(&renamed.stream.0);
        put(&renamed.base.to_le_bytes());
        put(&renamed.stored.0);
        for number in [self.acknowledged, self.sent, self.epoch] {
            put(&number.to_le_bytes());
        }
        put(&self.boot);
        slot[..4].copy_from_slice(&MAGIC);
        let crc = crc32c(&slot[CRC_FROM..]);
        slot[4..CRC_FROM].copy_from_slice(&crc.to_le_bytes());
        slot
    }

    fn decode(slot: &[u8]) -> Option<Known> {
        let slot = slot.first_chunk::<SLOT_BYTES>()?;
        let array = |at: usize| slot[at..].first_chunk::<16>().copied().unwrap_or_default();
        let number = |at: usize| slot[at..].first_chunk::<8>().copied().map_or(0, u64::from_le_bytes);
        let small = |at: usize| number(at) as u32;
        if slot[..4] != MAGIC || small(4) != crc32c(&slot[CRC_FROM..]) || small(8) != VERSION {
            return None;
        }
        if [40, 64, 72, 80].into_iter().any(|at| number(at) > NUMBER_MAX) {
            return None;
        }
        let renamed = Renamed { stream: StreamId(array(24)), base: number(40), stored: StreamId(array(48)) };
        Some(Known {
            server: small(12),
            generation: number(16),
            renamed: (renamed.stored != NO_STREAM).then_some(renamed),
            acknowledged: number(64),
            sent: number(72),
            epoch: number(80),
            boot: array(88),
        })
    }
}

/// What a file says, and whether all of it can be believed.
pub(super) struct Content {
    pub(super) known: Known,
    pub(super) is_new: bool,
    pub(super) doubt: Option<&'static str>,
}

fn read(bytes: &[u8]) -> Content {
    let slot = |at: u64| bytes.get(at as usize..).unwrap_or_default();
    let slots = [slot(0), slot(SLOT_DISTANCE)];
    let known: Vec<Known> = slots.iter().filter_map(|slot| Known::decode(slot)).collect();
    let written = slots.iter().filter(|slot| slot.iter().take(SLOT_BYTES).any(|byte| *byte != 0)).count();
    let newest = known.iter().max_by_key(|known| known.generation);
    if let Some(newest) = newest {
        let doubt = (known.len() < written).then_some("what it knows of its servers is damaged");
        return Content { known: *newest, is_new: false, doubt };
    }
    // Version 1, or nothing that can be read: the server's welcome says what it has.
    let text = std::str::from_utf8(bytes).unwrap_or_default().trim_end();
    let (acknowledged, doubt) = match text.parse() {
        Ok(number) if number <= NUMBER_MAX => (number, "it is of an earlier release"),
        _ => (0, "what it knows of its servers is damaged"),
    };
    let is_new = bytes.is_empty();
    Content {
        known: Known { acknowledged, ..Known::default() },
        is_new,
        doubt: if is_new { None } else { Some(doubt) },
    }
}

fn file_name(name: &str) -> String {
    // Different names stay different.
    let safe: String = name.bytes().fold(String::new(), |mut safe, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => safe.push(char::from(byte)),
            _ => safe.push_str(&format!("%{byte:02x}")),
        }
        safe
    });
    if safe.is_empty() { "acknowledged".to_owned() } else { format!("{OF_ONE}{safe}") }
}

/// The files of single servers that are none of `names`, and up to which number those have everything.
pub(super) fn of_others(
    storage: &dyn Storage,
    directory: &Path,
    names: &[String],
) -> io::Result<Vec<(String, u64)>> {
    let known: Vec<String> = names.iter().map(|name| file_name(name)).collect();
    let mut others = Vec::new();
    for name in storage.list(directory)? {
        if name.starts_with(OF_ONE) && !known.contains(&name) {
            let content = storage.read(&directory.join(&name))?;
            others.push((name, read(&content).known.acknowledged));
        }
    }
    Ok(others)
}

/// Why something is not remembered.
#[derive(Debug)]
pub(crate) enum NotRemembered {
    /// The directory is the next sender's: this one must send nothing that it does not know of.
    Closed,
    /// The disk does not take it.
    Failed,
}

pub(super) struct Progress {
    file: Box<dyn StorageFile>,
    mine: Mutex<Mine>,
}

#[derive(Debug)]
struct Mine {
    known: Known,
    is_closed: bool,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("mine", &self.mine).finish_non_exhaustive()
    }
}

impl Progress {
    /// `name` is empty where all servers share one progress.
    pub(super) fn open(
        storage: &dyn Storage,
        directory: &Path,
        name: &str,
    ) -> io::Result<(Progress, Content)> {
        let path = directory.join(file_name(name));
        let file = storage.open(&path, OpenMode::ExistingOrNew)?;
        let mut bytes = [0; FILE_BYTES];
        let length = file.read_at(0, &mut bytes)?;
        let read = read(&bytes[..length]);
        let mine = Mine { known: read.known, is_closed: false };
        Ok((Progress { file, mine: Mutex::new(mine) }, read))
    }

    fn mine(&self) -> MutexGuard<'_, Mine> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing changes the file any more once this returns: what was remembered before, the next sender finds.
    pub(super) fn close(&self) {
        self.mine().is_closed = true;
    }

    /// Begins to be of the system's present run. Both slots are written, so that there is room for them on a disk that is full
    /// later; one that is full now has none for records, either.
    pub(super) fn begin(&self, known: Known) {
        let mine = &mut self.mine().known;
        *mine = Known { generation: mine.generation, ..known };
        let _written = self.write(mine).and_then(|()| self.write(mine));
    }

    fn write(&self, known: &mut Known) -> io::Result<()> {
        known.generation += 1;
        self.file.write_all_at(known.generation % 2 * SLOT_DISTANCE, &known.encode())
    }

    fn change(&self, change: impl FnOnce(&mut Known)) -> Result<(), NotRemembered> {
        let mut mine = self.mine();
        if mine.is_closed {
            return Err(NotRemembered::Closed);
        }
        let mut changed = mine.known;
        change(&mut changed);
        if changed != mine.known {
            self.write(&mut changed).map_err(|_error| NotRemembered::Failed)?;
            mine.known = changed;
        }
        Ok(())
    }

    pub(super) fn acknowledged(&self, record: u64, server: u32) -> Result<(), NotRemembered> {
        self.change(|known| {
            if record >= known.acknowledged {
                (known.acknowledged, known.server) = (record, server);
            }
        })
    }

    pub(super) fn sent(&self, record: u64) -> Result<(), NotRemembered> {
        self.change(|known| known.sent = known.sent.max(record))
    }

    pub(super) fn epoch(&self, epoch: u64) -> Result<(), NotRemembered> {
        self.change(|known| known.epoch = epoch)
    }

    /// Nothing was sent in the new stream yet.
    pub(super) fn rename(&self, renamed: Renamed) -> Result<(), NotRemembered> {
        self.change(|known| {
            known.renamed = Some(renamed);
            known.sent = renamed.base;
        })
    }
}
