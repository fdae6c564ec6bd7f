//! The handles of this process, and the flush at its exit.
//!
//! Invariant: every handle in the list is alive. `remove` takes a handle out before it is freed, and waits for a flush that uses it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::boundary;
use crate::process::PerProcess;

/// A handle that is flushed when the process exits.
pub(crate) trait AtExit: Sync {
    /// Waits for acknowledgements, at most for `timeout` or the handle's own close time-out, less `spent`. Returns whether every
    /// message is acknowledged.
    fn flush_at_exit(&self, timeout: Option<Duration>, spent: Duration) -> bool;
}

struct Listed(*const dyn AtExit);

// SAFETY: any thread may use a handle, as C may share it.
unsafe impl Send for Listed {}

static SENDERS: PerProcess<Mutex<Vec<Listed>>> = PerProcess::new();

fn senders() -> MutexGuard<'static, Vec<Listed>> {
    SENDERS.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a handle that has a sender in this process.
pub(crate) fn add(handle: *const (impl AtExit + 'static)) {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stops panics, and is never unloaded (build.rs). If there is no room for it, exits do not wait.
        let _registered = unsafe { libc::atexit(at_exit) };
    }
    senders().push(Listed(handle));
}

/// Removes a handle that is about to be freed.
pub(crate) fn remove(handle: *const impl AtExit) {
    if SENDERS.get().is_some() {
        senders().retain(|listed| !std::ptr::addr_eq(listed.0, handle));
    }
}

/// Flushes every sender of this process. `timeout` is for all of them together; without it each has its own close time-out. Returns
/// whether every message is acknowledged.
pub(crate) fn flush_all(timeout: Option<Duration>) -> bool {
    if SENDERS.get().is_none() {
        return true;
    }
    let begin = Instant::now();
    let mut flushed = true;
    for listed in &*senders() {
        // SAFETY: the handle is alive: it is removed from the list before it is freed, and the list is locked.
        let handle = unsafe { &*listed.0 };
        flushed &= handle.flush_at_exit(timeout, begin.elapsed());
    }
    flushed
}

extern "C" fn at_exit() {
    boundary::value((), || {
        flush_all(None);
    });
}
