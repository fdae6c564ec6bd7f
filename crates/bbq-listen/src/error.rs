//! Errors of opening a group. Later errors are counted (`Counters`), or are an `io::Error` of the call.
//!
//! Invariant: a message names the address or the word, the problem and the remedy; it does not print its source.

use std::io;
use std::path::PathBuf;

use crate::{Address, Distribution, Holder, Steering, Transport};

/// Why a group could not be opened. The operator has to fix each of these; a retry does not help.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Group, ListenError};
///
/// let group = Group::at("127.0.0.1:0")?.open()?;
/// // The address has an owner already.
/// let refused = Group::open(&Group::at(&group.local_address().to_string())?);
/// assert!(matches!(refused, Err(ListenError::AddressInUse { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the other fields")]
pub enum ListenError {
    /// Not a transport.
    #[error("unknown transport {word:?}; known: {}", words(&Transport::ALL))]
    UnknownTransport { word: String },

    /// An address without a transport in front.
    #[error("address {text:?} names no transport; write tcp://{text}, or udp, unix, unixgram")]
    MissingTransport { text: String },

    /// Not an address of its transport.
    #[error("{text:?} is not an address for {transport}: {problem}")]
    InvalidAddress {
        transport: Transport,
        text: String,
        /// What is wrong, and what to write.
        problem: &'static str,
    },

    /// The resolver does not know the host.
    #[error("host {host:?} cannot be resolved; check the name, or write the address in numbers")]
    Resolve { host: String, source: io::Error },

    /// Not a distribution.
    #[error("unknown distribution {word:?}; known: {}", Distribution::WORDS.join(", "))]
    UnknownDistribution { word: String },

    /// The transport cannot be spread that way.
    #[error("{address} cannot be spread by {distribution}: {reason}")]
    UnsupportedDistribution { address: Address, distribution: Distribution, reason: &'static str },

    /// Not a steering.
    #[error(
        "unknown steering {text:?}; known: hash, cpu, load, packets and weights:A,B,... (one weight of 0 to {} per worker, not all 0)",
        crate::WEIGHT_MAX
    )]
    UnknownSteering { text: String },

    /// A steering that the group cannot have.
    #[error("{address} cannot be steered by {steering}: {reason}")]
    UnsupportedSteering { address: Address, steering: Steering, reason: String },

    /// No workers, or more than [`WORKERS_MAX`](crate::WORKERS_MAX).
    #[error("a group for {workers} workers; it takes 1 to {}", crate::WORKERS_MAX)]
    WorkerCount { workers: usize },

    /// A worker that the group does not have.
    #[error("{address} has no worker {worker}; its {workers} workers are numbered from 0")]
    NoSuchWorker { address: Address, worker: usize, workers: usize },

    /// Another socket listens there. With `SO_REUSEPORT` the two would silently share the traffic.
    #[error(
        "{address} is in use by {}", in_use(holder.as_ref())
    )]
    AddressInUse {
        address: Address,
        /// The process that has it, if the system tells.
        holder: Option<Holder>,
    },

    /// The address belongs to no interface of this machine.
    #[error(
        "{address} is not an address of this machine; `ip address` lists those that are, 0.0.0.0 and [::] mean all"
    )]
    AddressNotAvailable { address: Address },

    /// A port that needs a privilege.
    #[error(
        "{address} is a privileged port; grant CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities=), lower the sysctl \
         net.ipv4.ip_unprivileged_port_start, or use a port above it"
    )]
    PrivilegedPort { address: Address },

    /// The directory of a unix socket is not writable or not searchable.
    #[error(
        "{address} cannot be created, because this user may not write to its directory; grant this user write permission"
    )]
    PathPermission { address: Address },

    /// The directory of a unix socket does not exist.
    #[error("{address} cannot be created: its directory does not exist; create it")]
    NoDirectory { address: Address },

    /// The path of a unix socket is a file of another kind. It is not touched.
    #[error("{} exists and is not a socket; move it away, or listen on another path", path.display())]
    NotASocket { path: PathBuf },

    /// No descriptor left for a socket.
    #[error(
        "{address} needs a descriptor and the limit is reached; raise it (ulimit -n, systemd: LimitNOFILE=)"
    )]
    DescriptorLimit { address: Address },

    /// Sockets of other programs are in the kernel's group. The order of its sockets is unknown, so a new one cannot be named.
    #[error(
        "{address} gets no more sockets: {members} of another program joined it ({}); stop that program and try again",
        holder.as_ref().map_or_else(|| "`ss -lntup` as root names it".to_owned(), ToString::to_string)
    )]
    ForeignMembers {
        address: Address,
        /// How many.
        members: usize,
        /// The process that has the first of them, if the system tells.
        holder: Option<Holder>,
    },

    /// Adopted sockets do not match the options.
    #[error("the sockets handed over for {address} do not fit: {problem}")]
    Unfit {
        address: Address,
        /// Which of them, and what is wrong with it.
        problem: String,
    },

    /// The system refused a step.
    #[error("{address} cannot be opened: {step} failed")]
    System { address: Address, step: &'static str, source: io::Error },
}

impl ListenError {
    /// Whether the input is wrong, independent of the state of the system.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::UnknownTransport { .. }
                | Self::MissingTransport { .. }
                | Self::InvalidAddress { .. }
                | Self::UnknownDistribution { .. }
                | Self::UnsupportedDistribution { .. }
                | Self::UnknownSteering { .. }
                | Self::UnsupportedSteering { .. }
                | Self::WorkerCount { .. }
        )
    }
}

impl From<ListenError> for io::Error {
    /// With the whole message, and the error as its source.
    fn from(error: ListenError) -> Self {
        let kind = match &error {
            ListenError::AddressInUse { .. } => io::ErrorKind::AddrInUse,
            ListenError::AddressNotAvailable { .. } => io::ErrorKind::AddrNotAvailable,
            ListenError::PrivilegedPort { .. } | ListenError::PathPermission { .. } => {
                io::ErrorKind::PermissionDenied
            }
            ListenError::NoDirectory { .. } => io::ErrorKind::NotFound,
            ListenError::System { source, .. } | ListenError::Resolve { source, .. } => source.kind(),
            _ if error.is_usage() => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

fn words<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Who has an address, and what to do about it.
fn in_use(holder: Option<&Holder>) -> String {
    match holder {
        Some(own) if own.pid == std::process::id() => {
            format!(
                "{own}, this process: its sockets need different addresses, so give one of them another port"
            )
        }
        Some(holder) => format!("{holder}; stop it, or listen on another address"),
        None => {
            "another socket (`ss -lntup` as root names its process); stop it, or listen on another address"
                .to_owned()
        }
    }
}
