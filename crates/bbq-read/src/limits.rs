//! What a reader takes at most, and how often it looks, with the reasons.

use std::time::Duration;

use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, BATCH_BODY_BYTES_TARGET, MESSAGE_BYTES_MAX};

/// Bytes of a file that are read in one turn: a batch of the size that is best for lanes. The other files wait no longer than that takes.
pub(crate) const TURN_BYTES: usize = BATCH_BODY_BYTES_TARGET;

/// Records of a turn: as many empty lines as a batch can have would take several megabytes of attributes.
pub(crate) const TURN_RECORDS_MAX: u32 = 64 * 1024;

/// Bytes of batches that are handed over and not in a lane yet: enough to keep every lane busy, and what the server's memory plan has for
/// a reader.
pub(crate) const IN_HAND_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Files that are open at a time. More files take turns.
const OPEN_FILES_MAX: u64 = 1024;

/// The part of the process's descriptors that a reader takes at most, so that those of listeners and lanes suffice.
const DESCRIPTORS_SHARE: u64 = 4;

/// Files that a reader of this process has open at a time.
pub(crate) fn open_files_max() -> usize {
    let descriptors =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    (descriptors / DESCRIPTORS_SHARE).clamp(8, OPEN_FILES_MAX) as usize
}

/// Files that one reader knows. Each takes less than 1 KiB. Further files are told and not read.
pub(crate) const FILES_MAX: usize = 200_000;

/// Directories that `**` looks into below each other: links can lead in circles.
pub(crate) const DEPTH_MAX: usize = 32;

/// Directories that a reader visits in a scan.
pub(crate) const DIRECTORIES_MAX: usize = 50_000;

/// First bytes of a file whose checksum tells it from another one with its inode.
pub(crate) const PREFIX_BYTES_MAX: usize = 1024;

/// Bytes before the position that a turn reads again: if they have changed, the file was truncated and written again.
pub(crate) const TAIL_BYTES_MAX: usize = 128;

/// Last bytes of a file that may be a copy, which are compared with those of its original. Lines with a time or a number differ within fewer.
pub(crate) const COMPARED_BYTES: usize = 4096;

/// Turns between two looks at the store, inotify and the clock.
pub(crate) const ROUND_TURNS: usize = 64;

/// A scan may take this part of the time.
pub(crate) const SCAN_SHARE: u32 = 20;

// A turn that ends with a line of the largest size fits in a batch, with the lengths of its records.
const _: () = assert!(
    TURN_BYTES + (MESSAGE_BYTES_MAX as usize) + 5 * TURN_RECORDS_MAX as usize + (1 << 18)
        < BATCH_BODY_BYTES_MAX as usize
);

/// How often a reader looks, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between two scans without an event: inotify misses nothing but network file systems and overflows.
    pub rescan: Duration,
    /// Time between two looks at files on file systems without inotify.
    pub poll: Duration,
    /// Time between two scans at least, however many events come.
    pub scan_gap: Duration,
    /// How long a file that was renamed or deleted is kept open without a new byte: programs write into the old file until they
    /// reopen it.
    pub quiet: Duration,
    /// How long a file that may be a copy of another waits for the other one to be truncated.
    pub copy_wait: Duration,
    /// How long an event of several lines waits for its next line.
    pub event_wait: Duration,
    /// Time between two tries of what failed: a catalog that cannot be written, a file that cannot be opened.
    pub retry: Duration,
    /// The first wait before journalctl is started again. It doubles up to 60 times this.
    pub restart: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rescan: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            scan_gap: Duration::from_millis(50),
            quiet: Duration::from_secs(60),
            copy_wait: Duration::from_secs(5),
            event_wait: Duration::from_secs(1),
            retry: Duration::from_secs(5),
            restart: Duration::from_secs(1),
        }
    }
}
