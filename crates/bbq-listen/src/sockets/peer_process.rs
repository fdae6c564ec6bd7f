//! The process at the other end of a unix socket.

use std::io;
use std::os::fd::AsFd;

use crate::sys;

/// A process that connected, or sent a datagram, by a unix socket: what the kernel says of it, which the process cannot choose
/// unless it has privileges (unix(7), `SO_PEERCRED` and `SCM_CREDENTIALS`). The ids are those of this process's namespaces.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::os::unix::net::UnixStream;
///
/// use bbq_listen::PeerProcess;
///
/// let (client, _server) = UnixStream::pair()?;
/// assert_eq!(PeerProcess::of(&client)?.pid, std::process::id());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerProcess {
    /// Process id; 0 if this process cannot see the other.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

impl PeerProcess {
    /// Who connected this connection of a unix socket, as it was then.
    ///
    /// # Errors
    /// Those of getsockopt(2). Other sockets have no such process; Linux then says pid 0 and the ids -1.
    pub fn of(connection: impl AsFd) -> io::Result<Self> {
        sys::peer_credentials(connection.as_fd()).map(Self::from)
    }
}

impl From<[u32; 3]> for PeerProcess {
    /// The order of `struct ucred`.
    fn from([pid, uid, gid]: [u32; 3]) -> Self {
        Self { pid, uid, gid }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_connection_tells_who_made_it() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let process = PeerProcess::of(&one).expect("it is told");
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        assert_eq!(process, PeerProcess { pid: std::process::id(), uid, gid });
    }
}
