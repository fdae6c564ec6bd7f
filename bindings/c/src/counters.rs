//! What a sender has done so far, in a struct that may grow: its first field says how much of it the program knows.

use std::mem::offset_of;

use crate::failure::{Failure, Status};
use crate::handle::Handle;
use crate::{boundary, pointer};

/// Messages, by what became of them:
/// accepted + recovered = acknowledged + queued + dropped_oldest + dropped_abandoned, at every moment.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Counters {
    /// Set to sizeof(bbq_counters) before the call. After it, the size of what was filled in.
    pub size: u64,
    /// Taken, the sender's own reports of drops included.
    pub accepted: u64,
    /// Found in the spool at the start.
    pub recovered: u64,
    /// Written to a connection, each counted once for a server.
    pub sent: u64,
    /// Acknowledged at the level that was asked for, by every server that is to have them.
    pub acknowledged: u64,
    /// Taken and not acknowledged.
    pub queued: u64,
    /// Memory that they take, with what is kept for the next ones.
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
    /// Connections that ended because the server broke the protocol; `reconnects` has them, too.
    pub protocol_errors: u64,
}

/// Programs of the first version know so much.
const SIZE_FIRST: usize = offset_of!(Counters, dropped_abandoned) + size_of::<u64>();

/// Reads what the sender has done in this process. Set `counters->size` before.
///
/// # Safety
/// `sender` is from bbq_sender_start and not freed; `counters` points to as many bytes as its first field says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_sender_counters(sender: *const Handle, counters: *mut Counters) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let handle = unsafe { pointer::shared(sender, "sender") }?;
        // SAFETY: as above, and the first field is there in every version. What follows it may not be.
        let known = *unsafe { pointer::shared(counters.cast::<u64>(), "counters") }?;
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
        // SAFETY: the program has `known` bytes there, and a `Counters` has them, too.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const filled).cast::<u8>(), counters.cast::<u8>(), known)
        };
        Ok(())
    })
}
