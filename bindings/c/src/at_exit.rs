//! The handles of this process, and what the exit of the process does for them.
//!
//! Invariant: a handle in the list is alive. Whoever frees a handle takes it out of the list first, which waits for a flush that
//! uses it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::boundary;
use crate::process::PerProcess;

/// What has something to send when the process exits.
pub(crate) trait AtExit: Sync {
    /// Waits at most `timeout`, or its own close time-out, for what it has; `spent` of that is over. Returns whether everything is
    /// acknowledged.
    fn flush_at_exit(&self, timeout: Option<Duration>, spent: Duration) -> bool;
}

/// A handle, of which C has the other pointer.
struct Listed(*const dyn AtExit);

// SAFETY: a handle may be used by any thread; it is one that C may share.
unsafe impl Send for Listed {}

static SENDERS: PerProcess<Mutex<Vec<Listed>>> = PerProcess::new();

fn senders() -> MutexGuard<'static, Vec<Listed>> {
    SENDERS.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handle has a sender in this process.
pub(crate) fn enlist(handle: *const (impl AtExit + 'static)) {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stops panics, and is never unloaded (build.rs). Without room for it, exits do not wait.
        let _registered = unsafe { libc::atexit(at_exit) };
    }
    senders().push(Listed(handle));
}

/// The handle is about to be freed.
pub(crate) fn strike(handle: *const impl AtExit) {
    if SENDERS.look().is_some() {
        senders().retain(|listed| !std::ptr::addr_eq(listed.0, handle));
    }
}

/// Waits for what every sender of this process has, all of them together at most `timeout`, or each its own close time-out.
/// Returns whether everything is acknowledged.
pub(crate) fn flush_all(timeout: Option<Duration>) -> bool {
    if SENDERS.look().is_none() {
        return true;
    }
    let begin = Instant::now();
    let mut flushed = true;
    for listed in &*senders() {
        // SAFETY: it is alive, as it is struck from the list before it is freed, and the list is locked.
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
