//! Sockets that systemd opened, as in sd_listen_fds(3).
//!
//! It returns the descriptors and their names. The caller decides what each is for, with [`bound_address`] and
//! [`Group::adopt`](crate::Group::adopt).

use std::env;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, SockAddr, SockRef, Type};

use crate::address::path_of_abstract;
use crate::{Address, sys};

/// A descriptor that systemd passed.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Group, activated};
///
/// let (mut web, mut admin) = (Vec::new(), Vec::new());
/// for passed in activated()? {
///     if passed.name == "admin" { &mut admin } else { &mut web }.push(passed.descriptor);
/// }
/// let web = Group::at("0.0.0.0:80")?.adopt(web)?;
/// let admin = Group::at("127.0.0.1:9000")?.workers(1).adopt(admin)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Activated {
    /// Its name (`FileDescriptorName=`); systemd's default is the name of the socket unit.
    pub name: String,
    /// Closed on exec.
    pub descriptor: OwnedFd,
}

/// The descriptors that `LISTEN_FDS` counts, if `LISTEN_PID` is this process. Every call after the first returns none. Call it
/// before anything else is opened.
///
/// # Errors
/// If a counted descriptor is not open.
pub fn activated() -> io::Result<Vec<Activated>> {
    let number = |name| env::var(name).ok()?.parse::<i64>().ok();
    if number("LISTEN_PID") != Some(std::process::id().into()) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let Some(passed) = sys::take_passed(count) else { return Ok(Vec::new()) };
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    passed
        .map(|descriptor| {
            let descriptor = descriptor?;
            fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
            Ok(Activated { name: names.next().unwrap_or("unknown").to_owned(), descriptor })
        })
        .collect()
}

/// The address that a socket is bound to; `None` if it is no socket of a known transport.
#[must_use]
pub fn bound_address(socket: BorrowedFd<'_>) -> Option<Address> {
    let socket = SockRef::from(&socket);
    let name = socket.local_addr().ok()?;
    match (socket.domain().ok()?, socket.r#type().ok()?) {
        (Domain::IPV4 | Domain::IPV6, Type::STREAM) => name.as_socket().map(Address::Tcp),
        (Domain::IPV4 | Domain::IPV6, Type::DGRAM) => name.as_socket().map(Address::Udp),
        (Domain::UNIX, Type::STREAM) => unix_name(&name).map(Address::Unix),
        (Domain::UNIX, Type::DGRAM) => unix_name(&name).map(Address::UnixDatagram),
        _ => None,
    }
}

/// The path of a unix socket, or its abstract name as [`Address`] has it.
pub(crate) fn unix_name(name: &SockAddr) -> Option<PathBuf> {
    let file = name.as_pathname().map(Path::to_owned);
    file.or_else(|| name.as_abstract_namespace().map(path_of_abstract))
}
