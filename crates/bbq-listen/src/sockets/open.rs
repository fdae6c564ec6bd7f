//! Opens the sockets of a group, as the distribution and this system allow.
//!
//! With `SO_REUSEPORT`, a second server that is started by mistake joins the group and silently takes half of the traffic. So
//! the first socket is bound and listens *without* that option, which fails if another socket has the address. Then the option
//! is set, and the others join it. Two groups can never both succeed. (The kernel compares the options of the sockets at the
//! time of each bind: net/ipv4/inet_connection_sock.c, net/ipv4/udp.c. Tested on 6.18; where a system does it differently the
//! second bind fails, and the group falls back to `shared`.) A program of the same user that sets the option for its first
//! socket can still join: no socket option prevents that. It gets nothing where the group has a program (`steering::applied`).
//!
//! Invariant: a group that fails to open leaves no socket and no file.

use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, TcpKeepalive};

use crate::diagnose::holder::Holder;
use crate::sockets::options::{GroupOptions, RECEIVE_BUFFER_BYTES_DEFAULT, UnixOwner};
use crate::sockets::unix_path::{OwnedPath, make_way};
use crate::sys::{set_defer_accept, tell_credentials, tell_local_address};
use crate::{Address, Distribution, ListenError, worker_count};

/// Between the probes of a silent connection (nine, unless the system is configured otherwise). Connections inherit the options
/// from their listener, so they cost no system call for each.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) const UNIX_REASON: &str = "unix sockets have no SO_REUSEPORT";
pub(crate) const ONE_WORKER_REASON: &str = "there is only one worker";

/// The sockets of a group as they were opened.
pub(crate) struct Opened {
    pub(crate) sockets: Vec<OwnedFd>,
    pub(crate) address: Address,
    pub(crate) distribution: Distribution,
    pub(crate) fallback: Option<String>,
    pub(crate) receive_buffer_bytes: Option<u32>,
    pub(crate) path: Option<OwnedPath>,
}

pub(crate) fn open(options: &GroupOptions) -> Result<Opened, ListenError> {
    let transport = options.address.transport();
    if let Some(reason) = options.distribution.unsupported_reason(transport) {
        return Err(ListenError::UnsupportedDistribution {
            address: options.address.clone(),
            distribution: options.distribution,
            reason,
        });
    }
    let one = |distribution, fallback: Option<&str>| {
        Ok(Opened { distribution, fallback: fallback.map(str::to_owned), ..open_first(options)? })
    };
    match options.distribution {
        Distribution::Auto if transport.is_unix() => one(Distribution::Shared, Some(UNIX_REASON)),
        Distribution::Auto if options.workers == 1 => one(Distribution::Shared, Some(ONE_WORKER_REASON)),
        Distribution::Auto | Distribution::Reuseport => {
            open_several(options, options.workers, Distribution::Reuseport, allow_sharing)
        }
        Distribution::Duplicate(sockets) => {
            let sockets = sockets.map_or_else(duplicates, |sockets| usize::from(sockets.get()));
            open_several(options, sockets, options.distribution, allow_sharing)
        }
        one_socket => one(one_socket, None),
    }
}

/// Opens more sockets of a group that is open, behind its last. A step is taken for all of them before the next: a socket that is
/// closed again after it got clients would lose them.
pub(crate) fn open_more(options: &GroupOptions, count: usize) -> Result<Vec<OwnedFd>, ListenError> {
    let step = Steps { address: &options.address };
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = step.create(options)?;
        allow_sharing(&socket).map_err(|error| step.failed("setsockopt SO_REUSEPORT", error))?;
        sockets.push(socket);
    }
    for socket in &sockets {
        step.bind(socket, &options.address)?;
    }
    for socket in &sockets {
        step.listen(socket, options.backlog)?;
    }
    Ok(sockets.into_iter().map(OwnedFd::from).collect())
}

fn allow_sharing(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

/// One socket for 8 processors that the process may use, rounded up: enough by Yingqi Lu's measurements.
fn duplicates() -> usize {
    worker_count().div_ceil(8)
}

/// Opens the first socket, as a group of its own.
fn open_first(options: &GroupOptions) -> Result<Opened, ListenError> {
    let step = Steps { address: &options.address };
    if let Some(path) = options.address.unix_path() {
        make_way(&options.address, path)?;
    }
    let socket = step.create(options)?;
    step.bind(&socket, &options.address)?;
    let path = options.address.unix_path().map(OwnedPath::created).transpose();
    let path = path.map_err(|error| step.failed("lstat", error))?;
    if let Some(path) = options.address.unix_path() {
        step.set_file_options(path, options.unix_mode, options.unix_owner)?;
    }
    step.listen(&socket, options.backlog)?;
    Ok(Opened {
        address: step.bound_address(&socket)?,
        distribution: Distribution::Shared,
        fallback: None,
        receive_buffer_bytes: step.granted_receive_buffer(&socket)?,
        path,
        sockets: vec![socket.into()],
    })
}

/// `allow_sharing` sets `SO_REUSEPORT`. Where the system refuses it, the group has one socket for all.
fn open_several(
    options: &GroupOptions,
    count: usize,
    distribution: Distribution,
    mut allow_sharing: impl FnMut(&socket2::Socket) -> io::Result<()>,
) -> Result<Opened, ListenError> {
    let opened = open_first(options)?;
    let first = SockRef::from(&opened.sockets[0]);
    let mut others = Vec::with_capacity(count - 1);
    let mut refused =
        allow_sharing(&first).err().map(|error| format!("this system has no SO_REUSEPORT ({error})"));
    let step = Steps { address: &opened.address };
    while refused.is_none() && others.len() + 1 < count {
        let socket = step.create(options)?;
        match allow_sharing(&socket).and_then(|()| socket.bind(&step.name(&opened.address)?)) {
            Ok(()) => others.push(socket),
            Err(error) => {
                // The others do not listen yet, so closing them loses nothing.
                first.set_reuse_port(false).map_err(|error| step.failed("setsockopt SO_REUSEPORT", error))?;
                refused = Some(format!("this system refused a second socket on the address ({error})"));
            }
        }
    }
    if refused.is_some() {
        return Ok(Opened { fallback: refused, ..opened });
    }
    for socket in &others {
        step.listen(socket, options.backlog)?;
    }
    let Opened { mut sockets, .. } = opened;
    sockets.extend(others.into_iter().map(OwnedFd::from));
    Ok(Opened { sockets, distribution, ..opened })
}

/// The system calls that open a socket, with their errors for one address.
pub(crate) struct Steps<'a> {
    pub(crate) address: &'a Address,
}

impl Steps<'_> {
    fn create(&self, options: &GroupOptions) -> Result<socket2::Socket, ListenError> {
        let (domain, kind) = self.address.domain_and_type();
        let socket =
            socket2::Socket::new(domain, kind, None).map_err(|error| self.failed("socket", error))?;
        self.set_options(&socket, options)?;
        if let Some(only_v6) = options.only_v6
            && domain == Domain::IPV6
        {
            socket.set_only_v6(only_v6).map_err(|error| self.failed("setsockopt IPV6_V6ONLY", error))?;
        }
        if let Some(hook) = &options.before_bind {
            let step = "the hook before bind";
            hook.call(socket.as_fd()).map_err(|source| ListenError::System {
                address: self.address.clone(),
                step,
                source,
            })?;
        }
        Ok(socket)
    }

    pub(crate) fn set_options(
        &self,
        socket: &socket2::Socket,
        options: &GroupOptions,
    ) -> Result<(), ListenError> {
        socket.set_nonblocking(true).map_err(|error| self.failed("fcntl O_NONBLOCK", error))?;
        match self.address {
            // A restart must not wait until old connections leave TIME_WAIT. UDP has no such state, and the option would let a
            // second server bind the address.
            Address::Tcp(_) => {
                socket
                    .set_reuse_address(true)
                    .map_err(|error| self.failed("setsockopt SO_REUSEADDR", error))?;
                self.set_connection_options(socket, options)?;
            }
            Address::Udp(_) | Address::UnixDatagram(_) => {
                let bytes = options.receive_buffer_bytes.unwrap_or(RECEIVE_BUFFER_BYTES_DEFAULT);
                socket
                    .set_recv_buffer_size(bytes as usize)
                    .map_err(|error| self.failed("setsockopt SO_RCVBUF", error))?;
                if self.address.is_wildcard_udp() {
                    let is_ipv6 = self.address.domain_and_type().0 == Domain::IPV6;
                    tell_local_address(socket.as_fd(), is_ipv6)
                        .map_err(|error| self.failed("setsockopt IP_PKTINFO", error))?;
                }
                if let Address::UnixDatagram(_) = self.address {
                    tell_credentials(socket.as_fd())
                        .map_err(|error| self.failed("setsockopt SO_PASSCRED", error))?;
                }
            }
            Address::Unix(_) => {}
        }
        Ok(())
    }

    /// Options that connections inherit.
    fn set_connection_options(
        &self,
        socket: &socket2::Socket,
        options: &GroupOptions,
    ) -> Result<(), ListenError> {
        let keepalive = match options.keepalive {
            Some(time) => socket
                .set_tcp_keepalive(&TcpKeepalive::new().with_time(time).with_interval(KEEPALIVE_INTERVAL)),
            None => socket.set_keepalive(false),
        };
        keepalive.map_err(|error| self.failed("setsockopt SO_KEEPALIVE", error))?;
        socket
            .set_tcp_user_timeout(options.user_timeout)
            .map_err(|error| self.failed("setsockopt TCP_USER_TIMEOUT", error))?;
        socket
            .set_tcp_nodelay(options.nodelay)
            .map_err(|error| self.failed("setsockopt TCP_NODELAY", error))?;
        let seconds = options.defer_accept.map_or(0, |timeout| timeout.as_secs().max(1));
        set_defer_accept(socket.as_fd(), u32::try_from(seconds).unwrap_or(u32::MAX))
            .map_err(|error| self.failed("setsockopt TCP_DEFER_ACCEPT", error))
    }

    /// Sets owner and mode of a socket file; of a new one, before anybody can connect.
    pub(crate) fn set_file_options(
        &self,
        path: &Path,
        mode: Option<u32>,
        owner: UnixOwner,
    ) -> Result<(), ListenError> {
        let UnixOwner { user, group } = owner;
        if user.is_some() || group.is_some() {
            lchown(path, user, group).map_err(|error| self.failed("chown", error))?;
        }
        if let Some(mode) = mode {
            set_permissions(path, Permissions::from_mode(mode))
                .map_err(|error| self.failed("chmod", error))?;
        }
        Ok(())
    }

    fn name(&self, address: &Address) -> io::Result<SockAddr> {
        match address {
            Address::Tcp(address) | Address::Udp(address) => Ok((*address).into()),
            Address::Unix(path) | Address::UnixDatagram(path) => SockAddr::unix(path),
        }
    }

    fn bind(&self, socket: &socket2::Socket, address: &Address) -> Result<(), ListenError> {
        self.name(address).and_then(|name| socket.bind(&name)).map_err(|error| self.failed("bind", error))
    }

    pub(crate) fn listen(&self, socket: &socket2::Socket, backlog: u32) -> Result<(), ListenError> {
        if !self.address.transport().is_stream() {
            return Ok(());
        }
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        socket.listen(backlog).map_err(|error| self.failed("listen", error))
    }

    pub(crate) fn bound_address(&self, socket: &socket2::Socket) -> Result<Address, ListenError> {
        let name = || -> Result<_, ListenError> {
            let name = socket.local_addr().map_err(|error| self.failed("getsockname", error))?;
            name.as_socket().ok_or_else(|| self.failed("getsockname", io::ErrorKind::InvalidData.into()))
        };
        match self.address {
            Address::Tcp(_) => name().map(Address::Tcp),
            Address::Udp(_) => name().map(Address::Udp),
            Address::Unix(_) | Address::UnixDatagram(_) => Ok(self.address.clone()),
        }
    }

    pub(crate) fn granted_receive_buffer(
        &self,
        socket: &socket2::Socket,
    ) -> Result<Option<u32>, ListenError> {
        if self.address.transport().is_stream() {
            return Ok(None);
        }
        // getsockopt returns twice what was granted: socket(7).
        let doubled =
            socket.recv_buffer_size().map_err(|error| self.failed("getsockopt SO_RCVBUF", error))?;
        Ok(Some(u32::try_from(doubled / 2).unwrap_or(u32::MAX)))
    }

    pub(crate) fn failed(&self, step: &'static str, source: io::Error) -> ListenError {
        let address = self.address.clone();
        let is_unix = address.transport().is_unix();
        match Errno::from_io_error(&source) {
            Some(Errno::ADDRINUSE) => {
                let holder = Holder::of(&address);
                ListenError::AddressInUse { address, holder }
            }
            Some(Errno::ADDRNOTAVAIL) => ListenError::AddressNotAvailable { address },
            Some(Errno::ACCESS | Errno::PERM) if step == "bind" && is_unix => {
                ListenError::PathPermission { address }
            }
            Some(Errno::ACCESS) if step == "bind" => ListenError::PrivilegedPort { address },
            Some(Errno::NOENT) if is_unix => ListenError::NoDirectory { address },
            Some(Errno::MFILE | Errno::NFILE) => ListenError::DescriptorLimit { address },
            _ => ListenError::System { address, step, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> GroupOptions {
        GroupOptions::new("tcp://127.0.0.1:0".parse().unwrap(), 3)
    }

    #[test]
    fn a_system_without_reuseport_gets_one_socket_and_the_reason() {
        for refused_at in 0..3 {
            let mut calls = 0;
            let opened = open_several(&options(), 3, Distribution::Reuseport, |socket| {
                calls += 1;
                if calls > refused_at {
                    return Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT));
                }
                socket.set_reuse_port(true)
            });
            let opened = opened.unwrap();
            assert_eq!((opened.distribution, opened.sockets.len()), (Distribution::Shared, 1));
            let reason = opened.fallback.unwrap();
            assert!(reason.contains("Protocol not available"), "{reason}");
            let joining = Steps { address: &opened.address }.create(&options()).unwrap();
            joining.set_reuse_port(true).unwrap();
            let name = opened.address.socket_address().unwrap().into();
            // Once a second socket was bound the kernel remembers the port as shareable, even after it is closed.
            if refused_at < 2 {
                assert!(joining.bind(&name).is_err(), "somebody else could join it");
            }
            let other = GroupOptions { address: opened.address.clone(), ..options() };
            assert!(matches!(open(&other), Err(ListenError::AddressInUse { .. })));
        }
    }

    #[test]
    fn refusals_name_the_remedy() {
        let tcp: Address = "tcp://127.0.0.1:80".parse().unwrap();
        let unix: Address = "unix:///run/socket".parse().unwrap();
        for (address, step, code, wanted) in [
            (&tcp, "bind", libc::EACCES, "CAP_NET_BIND_SERVICE"),
            (&tcp, "bind", libc::EADDRNOTAVAIL, "ip address"),
            (&tcp, "bind", libc::EADDRINUSE, "in use by"),
            (&tcp, "socket", libc::EMFILE, "LimitNOFILE"),
            (&tcp, "listen", libc::EIO, "listen failed"),
            (&unix, "bind", libc::EACCES, "write permission"),
            (&unix, "bind", libc::ENOENT, "directory does not exist"),
        ] {
            let error = Steps { address }.failed(step, io::Error::from_raw_os_error(code));
            let message = error.to_string();
            assert!(message.contains(wanted) && message.contains(&address.to_string()), "{message}");
            assert!(!error.is_usage());
        }
    }
}
