//! How connections and datagrams are spread over the workers. `sockets/open` makes the sockets.

use std::fmt;
use std::num::NonZeroU16;

use crate::Transport;
use crate::limits::WORKERS_MAX;

/// How connections and datagrams are spread over the workers.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Distribution, Group};
///
/// let group = Group::at("127.0.0.1:0")?.workers(2).distribution(Distribution::Shared).open()?;
/// assert_eq!(group.distribution(), Distribution::Shared);
/// assert_eq!("handoff=fewest".parse::<Distribution>()?.to_string(), "handoff=fewest");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Distribution {
    /// `reuseport` where it works and there is more than one worker, else `shared`; the group says why.
    #[default]
    Auto,
    /// One socket per worker with `SO_REUSEPORT`; the kernel's hash of the peer's address chooses. Cheapest per
    /// connection, and even over many clients. A connection behind a busy worker waits, unless a
    /// [`StallMonitor`](crate::StallMonitor) runs.
    Reuseport,
    /// One socket that every worker accepts from: a free worker takes the next connection. One worker wakes up at a time.
    Shared,
    /// One socket and a mutex: the worker that holds the mutex accepts what waits, in a bounded batch, and passes the mutex to the
    /// next worker (NGINX's `accept_mutex`). Few hand-overs under load; a connection may wait for a worker that is busy.
    AcceptMutex,
    /// One socket, and a thread that accepts for all workers: for few connections that last long.
    Handoff(HandoffRule),
    /// This many sockets with `SO_REUSEPORT`, each shared by all workers; by default one for 8 processors (Yingqi Lu's duplicated
    /// listen sockets).
    Duplicate(Option<NonZeroU16>),
}

/// Which worker gets the next connection of a `handoff`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Distribution, Group, HandoffRule};
///
/// let handoff = Distribution::Handoff(HandoffRule::Fewest);
/// let group = Group::at("127.0.0.1:0")?.workers(2).distribution(handoff).open()?;
/// assert_eq!(group.open_connections(), [0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HandoffRule {
    /// Each worker in turn.
    #[default]
    RoundRobin,
    /// The worker with the fewest open connections.
    Fewest,
}

impl Distribution {
    /// The names, as in the configuration and the status.
    pub const WORDS: [&str; 9] = [
        "auto",
        "reuseport",
        "shared",
        "accept-mutex",
        "handoff",
        "handoff=round-robin",
        "handoff=fewest",
        "duplicate",
        "duplicate=N",
    ];

    /// Why a transport cannot be spread that way, if it cannot.
    pub fn unsupported_reason(self, transport: Transport) -> Option<&'static str> {
        match self {
            Self::Auto | Self::Shared => None,
            Self::Reuseport | Self::Duplicate(_) if transport.is_unix() => {
                Some("unix sockets have no SO_REUSEPORT; use auto, shared, accept-mutex or handoff")
            }
            Self::AcceptMutex | Self::Handoff(_) if !transport.is_stream() => {
                Some("datagrams are received, not accepted; use auto, reuseport, shared or duplicate")
            }
            Self::Duplicate(Some(sockets)) if usize::from(sockets.get()) > WORKERS_MAX => {
                Some("so many sockets have no use; use 1 to 1024")
            }
            _ => None,
        }
    }

    /// Whether each worker has a socket of its own.
    pub fn is_reuseport(self) -> bool {
        self == Self::Reuseport
    }

    /// Whether a connection goes to a worker that is free. With accept-mutex the workers take turns.
    pub(crate) fn wants_free_worker(self) -> bool {
        matches!(self, Self::Shared | Self::Duplicate(_))
    }

    /// Whether connections may be accepted that no worker has yet.
    pub(crate) fn has_inboxes(self) -> bool {
        matches!(self, Self::AcceptMutex | Self::Handoff(_))
    }

    /// Whether this many sockets can be those of a `duplicate`.
    pub(crate) fn may_duplicate(self, sockets: usize) -> bool {
        matches!(self, Self::Duplicate(wanted) if wanted.is_none_or(|wanted| usize::from(wanted.get()) == sockets))
    }

    /// Whether several sockets of such a group are one for each worker.
    pub fn is_per_worker(self) -> bool {
        !matches!(self, Self::Duplicate(_))
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Reuseport => f.write_str("reuseport"),
            Self::Shared => f.write_str("shared"),
            Self::AcceptMutex => f.write_str("accept-mutex"),
            Self::Handoff(HandoffRule::RoundRobin) => f.write_str("handoff"),
            Self::Handoff(HandoffRule::Fewest) => f.write_str("handoff=fewest"),
            Self::Duplicate(None) => f.write_str("duplicate"),
            Self::Duplicate(Some(sockets)) => write!(f, "duplicate={sockets}"),
        }
    }
}
