//! Damaged bytes of segments, copied to a directory for a person to look at.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tracing::error;

use crate::lane::LaneCore;

/// Copies damaged bytes to the quarantine directory. A failure is only logged.
pub(crate) fn set_aside(core: &LaneCore, position: u64, bytes: &[u8]) {
    let _one_at_a_time = core.setting_aside.lock().unwrap_or_else(PoisonError::into_inner);
    let path = core.shared.quarantine.join(format!("lane-{}-{position:020}-{}.bad", core.index, bytes.len()));
    // Another reader may have copied these bytes, or this reader before a crash.
    let kept = core.shared.storage.read(&path);
    if bytes.is_empty() || kept.as_ref().is_ok_and(|kept| kept == bytes) {
        return;
    }
    match core.shared.storage.replace(&path, bytes) {
        Ok(()) => {
            if kept.is_err() {
                core.shared.quarantined.fetch_add(1, Ordering::Relaxed);
            }
            error!(path = %path.display(), bytes = bytes.len(), "damaged bytes of the spool were set aside");
        }
        Err(error) => {
            error!(path = %path.display(), %error, "damaged bytes of the spool could not be set aside");
        }
    }
}
