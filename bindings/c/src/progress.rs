//! How far each server is.

use std::ffi::c_char;

use crate::failure::{Failure, Status};
use crate::handle::Handle;
use crate::reconnect::whole_ms;
use crate::{boundary, pointer};

/// Room for the longest host name, a port, and what stands around them; longer paths of unix sockets do not exist.
pub const BBQ_ADDRESS_BYTES: usize = 288;

/// How far one server is; with BBQ_DELIVERY_ANY all of them are one. This struct never changes.
#[repr(C)]
pub struct Progress {
    /// Every message up to this number is acknowledged; numbers begin at 1.
    pub acknowledged_sequence: u64,
    /// Connections that broke or could not be made.
    pub reconnects: u64,
    /// The present wait between two attempts to connect.
    pub reconnect_wait_ms: u64,
    /// The present attempts that make a delivery.
    pub reconnect_attempts: u32,
    /// Whether it has welcomed the sender.
    pub connected: bool,
    /// The server that is connected, or was tried last; a string.
    pub server: [c_char; BBQ_ADDRESS_BYTES],
}

/// Reads how far a server is: they are numbered from 0 in the order in which they were named. Answers BBQ_STATUS_ARGUMENT
/// behind the last one.
///
/// # Safety
/// `sender` is from bbq_sender_start and not freed; `progress` points to a bbq_progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_sender_progress(
    sender: *const Handle,
    server: usize,
    progress: *mut Progress,
) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let (handle, out) =
            unsafe { (pointer::shared(sender, "sender")?, pointer::unique(progress, "progress")?) };
        let servers = handle.sender()?.servers();
        let found = servers.get(server).ok_or_else(|| {
            Failure::argument(format!("there is no server {server}; the last is {}", servers.len() - 1))
        })?;
        *out = Progress {
            acknowledged_sequence: found.acknowledged_sequence,
            reconnects: found.reconnects,
            reconnect_wait_ms: whole_ms(found.reconnect.wait),
            reconnect_attempts: found.reconnect.attempts,
            connected: found.connected,
            server: address(&found.server),
        };
        Ok(())
    })
}

/// Cut where it is too long, and always with a zero byte at its end.
fn address(text: &str) -> [c_char; BBQ_ADDRESS_BYTES] {
    let mut out = [0; BBQ_ADDRESS_BYTES];
    for (to, from) in out[..BBQ_ADDRESS_BYTES - 1].iter_mut().zip(text.bytes()) {
        *to = from.cast_signed();
    }
    out
}
