//! The counters of a sender, in a struct that may grow: its first field is the size that the program knows.

use std::mem::offset_of;

use crate::boundary;
use crate::failure::{Failure, Status};
use crate::handle::Handle;
use crate::pointer::null;

/// What became of the messages:
/// accepted + recovered = acknowledged + queued + dropped_oldest + dropped_abandoned, at every moment.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Counters {
    /// Set to sizeof(bbq_counters) before the call. After the call: the bytes that were filled in.
    pub size: u64,
    /// Taken by the sender, including its own reports of drops.
    pub accepted: u64,
    /// Found in the spool at the start.
    pub recovered: u64,
    /// Written to a connection, each counted once for a server.
    pub sent: u64,
    /// Acknowledged, at the requested level, by every server that is to have them.
    pub acknowledged: u64,
    /// Taken and not acknowledged.
    pub queued: u64,
    /// Memory of the queued messages in bytes, including buffers kept for the next ones.
    pub queued_bytes: u64,
    /// Connections that broke or could not be made.
    pub reconnects: u64,
    /// Not taken: there was no room.
    pub dropped_full: u64,
    /// Not taken: over the size that the server takes.
    pub dropped_too_large: u64,
    /// Not taken: the sender's own spool could not be written.
    pub dropped_spool: u64,
    /// Not taken: the sender was closed, or had failed.
    pub dropped_closed: u64,
    /// Taken, and dropped for newer ones.
    pub dropped_oldest: u64,
    /// Taken, and given up.
    pub dropped_abandoned: u64,
    /// Connections that ended because the server broke the protocol; also counted in `reconnects`.
    pub protocol_errors: u64,
}

/// The size of this struct in the first version.
const SIZE_FIRST: usize = offset_of!(Counters, dropped_abandoned) + size_of::<u64>();

/// Reads the counters of the sender in this process. Set `counters->size` before the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_sender_counters(sender: Option<&Handle>, counters: *mut Counters) -> Status {
    boundary::status(|| {
        let handle = sender.ok_or_else(null("sender"))?;
        // SAFETY: null, or it points to a struct of at least the first version, which begins with its size.
        let known = *unsafe { counters.cast::<u64>().as_ref() }.ok_or_else(null("counters"))?;
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(size_of::<Counters>());
        if known < SIZE_FIRST {
            return Err(Failure::argument("counters->size is too small; set it to sizeof(bbq_counters)"));
        }
        let of_sender = handle.sender()?.counters();
        let dropped = of_sender.dropped;
        let filled = Counters {
            size: known as u64,
            accepted: of_sender.accepted,
            recovered: of_sender.recovered,
            sent: of_sender.sent,
            acknowledged: of_sender.acknowledged,
            queued: of_sender.queued,
            queued_bytes: of_sender.queued_bytes,
            reconnects: of_sender.reconnects,
            dropped_full: dropped.full,
            dropped_too_large: dropped.too_large,
            dropped_spool: dropped.spool,
            dropped_closed: dropped.closed,
            dropped_oldest: dropped.oldest,
            dropped_abandoned: dropped.abandoned,
            protocol_errors: of_sender.protocol_errors,
        };
        // SAFETY: `counters` points to `known` bytes at least, and `filled` has as many.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const filled).cast::<u8>(), counters.cast::<u8>(), known)
        };
        Ok(())
    })
}
