//! Tells systemd the state of the server: sd_notify(3), which is one datagram.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};
use tracing::warn;

/// The server serves.
pub(crate) const READY: &str = "READY=1";
/// The server ends.
pub(crate) const STOPPING: &str = "STOPPING=1";

/// A reload begins; [`READY`] ends it.
pub(crate) fn reloading() -> String {
    let now = clock_gettime(ClockId::Monotonic);
    format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000)
}

/// Another process is the service from here on.
pub(crate) fn main_pid(pid: u32) -> String {
    format!("MAINPID={pid}")
}

/// Sends a state to the service manager, if there is one.
pub(crate) fn notify(state: &str) {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)),
    };
    let sent = address.and_then(|address| {
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
        Ok(())
    });
    if let Err(error) = sent {
        warn!(socket = ?name, %error, state, "cannot notify the service manager");
    }
}
