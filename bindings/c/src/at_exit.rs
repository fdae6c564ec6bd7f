//! The senders of this process, and what the end of the process does for them.
//!
//! Invariant: a handle in the list is alive: who frees it takes it out first, and waits for who looks at it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::boundary;
use crate::handle::Handle;
use crate::process::PerProcess;

/// A handle, of which C has the other pointer.
struct Listed(*const Handle);

// SAFETY: a handle may be used by any thread; it is one that C may share.
unsafe impl Send for Listed {}

static SENDERS: PerProcess<Mutex<Vec<Listed>>> = PerProcess::new();

fn senders() -> MutexGuard<'static, Vec<Listed>> {
    SENDERS.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handle has a sender in this process.
pub(crate) fn enlist(handle: *const Handle) {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stops panics, and is never unloaded (build.rs). Without room for it, exits do not wait.
        let _registered = unsafe { libc::atexit(at_exit) };
    }
    senders().push(Listed(handle));
}

/// The handle is about to be freed.
pub(crate) fn strike(handle: *const Handle) {
    if SENDERS.look().is_some() {
        senders().retain(|listed| !std::ptr::eq(listed.0, handle));
    }
}

/// Waits for what every sender of this process has, all of them together at most `timeout`, or each its own close time-out.
/// Answers whether everything is acknowledged.
pub(crate) fn flush_all(timeout: Option<Duration>) -> bool {
    if SENDERS.look().is_none() {
        return true;
    }
    let begin = Instant::now();
    let mut flushed = true;
    for listed in &*senders() {
        // SAFETY: it is alive, as it is struck from the list before it is freed, and the list is locked.
        let handle = unsafe { &*listed.0 };
        let timeout = timeout.unwrap_or(handle.close_timeout());
        // Who closed it has waited, or not.
        flushed &= handle.is_closed() || handle.flush(timeout.saturating_sub(begin.elapsed())).is_ok();
    }
    flushed
}

extern "C" fn at_exit() {
    boundary::value((), || {
        flush_all(None);
    });
}
