//! What stands in the way of listening at an address, found out without listening there.

use std::net::SocketAddr;

use socket2::Socket;

use crate::diagnose::holder::is_held;
use crate::sockets::open::Steps;
use crate::{Address, ListenError};

impl ListenError {
    /// Why this process could not listen at an address now: it is no address of this machine, or its port needs a privilege.
    /// [`Holder::of`](crate::Holder) tells of an address that is in use; this returns `None` for it, as who holds it may hand it
    /// over. It also returns `None` for a unix socket.
    #[must_use]
    pub fn foreseen(address: &Address) -> Option<ListenError> {
        let wanted = address.socket_address()?;
        if is_held(address) {
            return None;
        }
        let refused = |error: &ListenError| {
            matches!(error, ListenError::AddressNotAvailable { .. } | ListenError::PrivilegedPort { .. })
        };
        try_bind(address, wanted).err().filter(refused)
    }
}

/// Binds a socket to a port that the system chooses, and then to the wanted port as well. The kernel looks for the privilege before it
/// says that the socket has a port (`__inet_bind`), so nobody misses the wanted port meanwhile.
fn try_bind(address: &Address, wanted: SocketAddr) -> Result<(), ListenError> {
    let step = Steps { address };
    let failed = |error| step.failed("bind", error);
    let (domain, kind) = address.domain_and_type();
    let socket = Socket::new(domain, kind, None).map_err(failed)?;
    let mut chosen = wanted;
    chosen.set_port(0);
    socket.bind(&chosen.into()).map_err(failed)?;
    if wanted.port() == 0 { Ok(()) } else { socket.bind(&wanted.into()).map_err(failed) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_of_another_machine_is_foreseen_and_a_free_one_stays_free() {
        for other in ["tcp://192.0.2.1:7701", "udp://192.0.2.1:0"] {
            let foreseen = ListenError::foreseen(&other.parse().unwrap()).unwrap().to_string();
            assert!(foreseen.starts_with(other) && foreseen.contains("not an address of this"), "{foreseen}");
        }
        // The port of an address that nobody else uses.
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        let free = SocketAddr::from(([127, 9, 8, 7], address.port()));
        for address in [Address::Tcp(free), Address::Udp(free), "unix:///nowhere/a".parse().unwrap()] {
            assert!(ListenError::foreseen(&address).is_none(), "{address}");
        }
        let _listener = TcpListener::bind(free).unwrap();
        assert!(ListenError::foreseen(&Address::Tcp(address)).is_none(), "its holder tells more");
    }
}
