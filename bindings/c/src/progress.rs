//! The progress of each server.

use std::ffi::c_char;

use crate::boundary;
use crate::failure::{Failure, Status};
use crate::handle::Handle;
use crate::pointer::null;
use crate::reconnect::whole_ms;

/// Enough for the longest host name with scheme and port, and for the longest path of a unix socket.
pub const BBQ_ADDRESS_BYTES: usize = 288;

/// The progress of one server; with BBQ_DELIVERY_ANY all servers count as one. This struct never changes.
#[repr(C)]
pub struct Progress {
    /// Every message up to this number is acknowledged; numbers begin at 1.
    pub acknowledged_sequence: u64,
    /// Connections that broke or could not be made.
    pub reconnects: u64,
    /// The current wait between two attempts to connect.
    pub reconnect_wait_ms: u64,
    /// The current number of attempts that must fail in a row before the wait changes.
    pub reconnect_attempts: u32,
    /// Whether the server has welcomed the sender and the connection is open.
    pub connected: bool,
    /// The address of the server that is connected, or was tried last; a string.
    pub server: [c_char; BBQ_ADDRESS_BYTES],
}

/// Reads the progress of a server. Servers are numbered from 0 in the order in which they were named; a number behind the last returns
/// BBQ_STATUS_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_sender_progress(
    sender: Option<&Handle>,
    server: usize,
    progress: Option<&mut Progress>,
) -> Status {
    boundary::status(|| {
        let (handle, out) = (sender.ok_or_else(null("sender"))?, progress.ok_or_else(null("progress"))?);
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

/// Cuts a text that is too long; the result always ends with a zero byte.
fn address(text: &str) -> [c_char; BBQ_ADDRESS_BYTES] {
    let mut out = [0; BBQ_ADDRESS_BYTES];
    for (to, from) in out[..BBQ_ADDRESS_BYTES - 1].iter_mut().zip(text.bytes()) {
        *to = from.cast_signed();
    }
    out
}
