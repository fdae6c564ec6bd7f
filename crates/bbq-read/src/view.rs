//! What others see of a reader.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Why bytes or lines were not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The line was longer than `line_bytes_max`.
    Oversize,
    /// The file was truncated before all of it was read, as copytruncate does.
    Truncated,
    /// The file was deleted and could not be opened any more.
    Deleted,
    /// The file could not be read: the disk failed, or the rights are missing.
    Unreadable,
    /// The entry of a journal has no field `MESSAGE`.
    NoMessage,
}

impl LossReason {
    /// All reasons, in the order of the status.
    pub const ALL: [LossReason; 5] = [
        LossReason::Oversize,
        LossReason::Truncated,
        LossReason::Deleted,
        LossReason::Unreadable,
        LossReason::NoMessage,
    ];

    /// The word in status and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            LossReason::Oversize => "oversize",
            LossReason::Truncated => "truncated",
            LossReason::Deleted => "deleted",
            LossReason::Unreadable => "unreadable",
            LossReason::NoMessage => "no-message",
        }
    }
}

/// What was lost for a reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Lines for [`LossReason::Oversize`], entries for [`LossReason::NoMessage`], and otherwise files.
    pub count: u64,
    /// Bytes, as far as they are known.
    pub bytes: u64,
}

/// What a reader does, as the status shows it. Each number is read on its own.
#[derive(Debug, Default)]
pub struct ReaderView {
    /// Files that match.
    pub files: AtomicU64,
    /// Files that are open.
    pub open: AtomicU64,
    /// Bytes of all files that are not on disk in a lane yet.
    pub bytes_behind: AtomicU64,
    /// The second since 1970 from which on the oldest unread bytes have waited; 0 if nothing waits.
    pub oldest_unread_second: AtomicU64,
    /// Files that were renamed or replaced by a new one.
    pub rotations: AtomicU64,
    /// Files that were truncated and read from the beginning again.
    pub truncations: AtomicU64,
    /// Files that are not read because they are compressed.
    pub compressed: AtomicU64,
    /// Files, or sequence number ids of a journal, of which nothing more is read until the server starts again, as their lane failed.
    pub resting: AtomicU64,
    /// Messages that the rules have left out.
    pub filtered: AtomicU64,
    /// Of a journal: the time of the last entry that was read, seconds since 1970; 0 before the first.
    pub last_entry_second: AtomicU64,
    /// Of a journal: times that journalctl was started again.
    pub restarts: AtomicU64,
    losses: [(AtomicU64, AtomicU64); LossReason::ALL.len()],
    problem: Mutex<Option<String>>,
}

impl ReaderView {
    /// What was lost for this reason since the start.
    #[must_use]
    pub fn loss(&self, reason: LossReason) -> Loss {
        let (count, bytes) = &self.losses[reason as usize];
        Loss { count: count.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    /// What a person should look at now, with the remedy.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn lose(&self, reason: LossReason, bytes: u64) {
        let (count, lost) = &self.losses[reason as usize];
        count.fetch_add(1, Ordering::Relaxed);
        lost.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts lines over the limit, and their bytes.
    pub(crate) fn lose_lines(&self, (lines, bytes): (u64, u64)) {
        let (count, lost) = &self.losses[LossReason::Oversize as usize];
        count.fetch_add(lines, Ordering::Relaxed);
        lost.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts messages that the rules have left out.
    pub(crate) fn filter(&self, messages: u64) {
        self.filtered.fetch_add(messages, Ordering::Relaxed);
    }

    pub(crate) fn lose_count(&self, reason: LossReason, count: u64) {
        self.losses[reason as usize].0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn lose_bytes(&self, reason: LossReason, bytes: u64) {
        self.losses[reason as usize].1.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}
