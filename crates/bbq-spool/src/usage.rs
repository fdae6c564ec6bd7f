//! The bytes that the segments of all lanes take, and the wait for room.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The spool's budget on disk. All allocated space counts, not only the written part.
pub struct Usage {
    taken: Mutex<Taken>,
    freed: Condvar,
    bytes_max: u64,
    /// Called when old messages are to be deleted for new ones.
    on_room_wanted: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    /// The part of `bytes` that the newest segment of each lane takes. This segment is never deleted.
    newest: BTreeMap<u32, u64>,
}

impl Usage {
    pub(crate) fn new(bytes_max: u64) -> Usage {
        Usage { taken: Mutex::default(), freed: Condvar::new(), bytes_max, on_room_wanted: OnceLock::new() }
    }

    fn locked(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in use.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.locked().bytes
    }

    /// The limit.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Counts bytes that are on disk already, even over the limit.
    pub(crate) fn adopt(&self, bytes: u64) {
        let mut taken = self.locked();
        taken.bytes = taken.bytes.saturating_add(bytes);
    }

    /// Sets the part of the used bytes that a lane always keeps: its newest segment.
    pub(crate) fn set_newest(&self, lane: u32, bytes: u64) {
        self.locked().newest.insert(lane, bytes);
    }

    /// Takes room if there is enough, or if no deletion could make more. Otherwise a limit below the size of the lanes' newest
    /// segments would stop the queue forever.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let mut taken = self.locked();
        let kept = taken.newest.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let fits = taken.bytes <= kept || taken.bytes.saturating_add(bytes) <= self.bytes_max;
        if fits {
            taken.bytes = taken.bytes.saturating_add(bytes);
        }
        fits
    }

    /// Whether `bytes` more are within the limit.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.bytes().saturating_add(bytes) <= self.bytes_max
    }

    /// Only the first call counts.
    pub(crate) fn on_room_wanted(&self, notify: Box<dyn Fn() + Send + Sync>) {
        let _first_counts = self.on_room_wanted.set(notify);
    }

    pub(crate) fn ask_for_room(&self) {
        if let Some(notify) = self.on_room_wanted.get() {
            notify();
        }
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let mut taken = self.locked();
        taken.bytes = taken.bytes.saturating_sub(bytes);
        drop(taken);
        self.freed.notify_all();
    }

    /// Waits until room was freed, at the latest after `timeout`.
    pub(crate) fn wait_freed(&self, timeout: Duration) {
        let taken = self.locked();
        let _unused = self.freed.wait_timeout(taken, timeout);
    }

    /// Ends the wait, for a writer that has to check something else.
    pub(crate) fn wake_waiters(&self) {
        self.freed.notify_all();
    }
}
