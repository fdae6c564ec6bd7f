//! The options of a group.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::sys::accounts::{group_number, user_number};
use crate::{Address, Distribution, STEERING_PINS_DEFAULT, Steering, SteeringKey};

/// The default backlog of each socket of a group. The system grants at most
/// `net.core.somaxconn`, which is 4,096 since Linux 5.4.
pub const BACKLOG_DEFAULT: u32 = 4096;

/// The default receive buffer: room for a burst of 3,000 datagrams of 1 KiB while the worker is busy. The system grants at most
/// `net.core.rmem_max`.
pub const RECEIVE_BUFFER_BYTES_DEFAULT: u32 = 4 * 1024 * 1024;

/// By default a connection is probed when it was silent for so long: a peer that lost its power or its network sends nothing any
/// more, and its connection would stay forever.
pub const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(60);

/// The options of a group. Each field has a method of the same name, which takes a value and returns the options, for a chain.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use bbq_listen::Group;
///
/// let group = Group::at("127.0.0.1:0")?
///     .workers(4)
///     .nodelay(true)
///     .keepalive(Some(Duration::from_secs(120)))
///     .open()?;
/// assert_eq!(group.workers(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GroupOptions {
    /// The address. With port 0 the system chooses one port for the whole group.
    pub address: Address,
    /// How connections or datagrams are spread over the workers.
    pub distribution: Distribution,
    /// How the worker of a sender is chosen, for `reuseport`.
    pub steering: Steering,
    /// The key of the hash of senders; `None` draws a new one. When sockets are adopted, that of the program that had them.
    pub steering_key: Option<SteeringKey>,
    /// Where programs for steering by load are pinned ([`SteeringSetup`](crate::SteeringSetup)). If there are none, shares are renewed
    /// by replacing a program.
    pub steering_pins: PathBuf,
    /// How many workers: 1 to [`WORKERS_MAX`](crate::WORKERS_MAX).
    pub workers: usize,
    /// The backlog of each socket. Only for tcp and unix.
    pub backlog: u32,
    /// The receive buffer of each socket, in bytes; `None` is [`RECEIVE_BUFFER_BYTES_DEFAULT`]. Only for udp and
    /// unixgram.
    pub receive_buffer_bytes: Option<u32>,
    /// Whether a connection that was silent for so long is probed (`SO_KEEPALIVE`, `TCP_KEEPIDLE`); `None` is never. In whole
    /// seconds, 1 to 32,767. Only for tcp.
    pub keepalive: Option<Duration>,
    /// How long sent bytes, or probes of a silent connection, may stay unanswered before the connection ends (`TCP_USER_TIMEOUT`);
    /// `None` leaves it to the system: about a quarter of an hour for bytes, nine probes for silence. Only for tcp.
    pub user_timeout: Option<Duration>,
    /// Whether connections send small segments at once (`TCP_NODELAY`). Connections inherit it from their listener, so it costs no
    /// system call for each. Only for tcp.
    pub nodelay: bool,
    /// Connections are accepted when their first bytes have arrived, or about this long after the handshake at the latest
    /// (`TCP_DEFER_ACCEPT`); `None` is at once. In whole seconds. Only for tcp, and not for protocols whose server speaks first.
    pub defer_accept: Option<Duration>,
    /// Whether an IPv6 socket takes IPv6 alone (`IPV6_V6ONLY`); `None` leaves it as the system has it (`net.ipv6.bindv6only`).
    /// Only for tcp and udp at an IPv6 address.
    pub only_v6: Option<bool>,
    /// The permissions of the file of a unix socket, such as `0o660`: a client needs the right to write. `None` is what the umask
    /// leaves. An adopted socket's file is not changed.
    pub unix_mode: Option<u32>,
    /// The owner of the file of a unix socket. An adopted socket's file is not changed.
    pub unix_owner: UnixOwner,
    pub(crate) before_bind: Option<BeforeBind>,
}

/// What is called with each socket before it is bound.
#[derive(Clone)]
pub(crate) struct BeforeBind(Arc<BindHook>);

type BindHook = dyn Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync;

impl BeforeBind {
    pub(crate) fn call(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        (self.0)(socket)
    }
}

impl fmt::Debug for BeforeBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeBind")
    }
}

/// The owner of a socket file, by the numbers of user and group. `None` is left as it is.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Group, UnixOwner};
///
/// let clients = UnixOwner { user: None, group: UnixOwner::group_named("adm")? };
/// let group = Group::at("unix:///run/server.sock")?.unix_mode(0o660).unix_owner(clients).open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnixOwner {
    /// The user; only root may give a file to another one.
    pub user: Option<u32>,
    /// The group; others than root may choose among their own.
    pub group: Option<u32>,
}

impl UnixOwner {
    /// The number of the user with this name; `None` if there is no such user.
    ///
    /// # Errors
    /// If the names cannot be read.
    pub fn user_named(name: &str) -> io::Result<Option<u32>> {
        user_number(name)
    }

    /// The number of the group with this name; `None` if there is no such group.
    ///
    /// # Errors
    /// If the names cannot be read.
    pub fn group_named(name: &str) -> io::Result<Option<u32>> {
        group_number(name)
    }
}

impl GroupOptions {
    /// How many workers.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// How connections or datagrams are spread over the workers.
    #[must_use]
    pub fn distribution(self, distribution: Distribution) -> Self {
        Self { distribution, ..self }
    }

    /// How the worker of a sender is chosen, for `reuseport`.
    #[must_use]
    pub fn steering(self, steering: Steering) -> Self {
        Self { steering, ..self }
    }

    /// The key of the hash of senders.
    #[must_use]
    pub fn steering_key(self, key: Option<SteeringKey>) -> Self {
        Self { steering_key: key, ..self }
    }

    /// Where programs for steering by load are pinned.
    #[must_use]
    pub fn steering_pins(self, directory: impl Into<PathBuf>) -> Self {
        Self { steering_pins: directory.into(), ..self }
    }

    /// The backlog of each socket.
    #[must_use]
    pub fn backlog(self, backlog: u32) -> Self {
        Self { backlog, ..self }
    }

    /// The receive buffer of each socket, in bytes.
    #[must_use]
    pub fn receive_buffer_bytes(self, bytes: u32) -> Self {
        Self { receive_buffer_bytes: Some(bytes), ..self }
    }

    /// Whether a connection is probed that was silent for so long.
    #[must_use]
    pub fn keepalive(self, keepalive: Option<Duration>) -> Self {
        Self { keepalive, ..self }
    }

    /// How long sent bytes or probes may stay unanswered.
    #[must_use]
    pub fn user_timeout(self, timeout: Option<Duration>) -> Self {
        Self { user_timeout: timeout, ..self }
    }

    /// Whether connections send small segments at once.
    #[must_use]
    pub fn nodelay(self, nodelay: bool) -> Self {
        Self { nodelay, ..self }
    }

    /// How long connections may wait in the kernel for their first bytes.
    #[must_use]
    pub fn defer_accept(self, timeout: Duration) -> Self {
        Self { defer_accept: Some(timeout), ..self }
    }

    /// Whether an IPv6 socket takes IPv6 alone.
    #[must_use]
    pub fn only_v6(self, only_v6: bool) -> Self {
        Self { only_v6: Some(only_v6), ..self }
    }

    /// The permissions of the file of a unix socket.
    #[must_use]
    pub fn unix_mode(self, mode: u32) -> Self {
        Self { unix_mode: Some(mode), ..self }
    }

    /// The owner of the file of a unix socket.
    #[must_use]
    pub fn unix_owner(self, owner: UnixOwner) -> Self {
        Self { unix_owner: owner, ..self }
    }

    /// Calls `hook` with each socket that is opened, before it is bound: for options that the others do not have, as
    /// `SO_BINDTODEVICE`, `SO_MARK`, `IP_TRANSPARENT`, `IP_FREEBIND`, `IP_TOS` and `TCP_FASTOPEN`. The other options of the group
    /// are set before. It is called again when the group grows, for the new sockets. Leave `SO_REUSEPORT` alone: an address that is
    /// in use would not be refused any more.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let group = bbq_listen::Group::at("0.0.0.0:7701")?
    ///     .before_bind(|socket| socket2::SockRef::from(&socket).bind_device(Some(b"eth1")))
    ///     .open()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An error of the hook is that of [`Group::open`](crate::Group::open) or [`Group::resize`](crate::Group::resize).
    #[must_use]
    pub fn before_bind(
        self,
        hook: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { before_bind: Some(BeforeBind(Arc::new(hook))), ..self }
    }

    /// The defaults: distribution `auto`, steering `hash`, backlog [`BACKLOG_DEFAULT`], keep-alive [`KEEPALIVE_DEFAULT`].
    pub fn new(address: Address, workers: usize) -> Self {
        Self {
            address,
            distribution: Distribution::Auto,
            steering: Steering::Hash,
            steering_key: None,
            steering_pins: STEERING_PINS_DEFAULT.into(),
            workers,
            backlog: BACKLOG_DEFAULT,
            receive_buffer_bytes: None,
            keepalive: Some(KEEPALIVE_DEFAULT),
            user_timeout: None,
            nodelay: false,
            defer_accept: None,
            only_v6: None,
            unix_mode: None,
            unix_owner: UnixOwner::default(),
            before_bind: None,
        }
    }
}
