//! Why a server does not start: what is wrong, whose fault it is, and what to do about it.

use std::io;

use bbq_listen::{Holder, ListenError};
use bbq_spec::ConfigError;
use bbq_spec::threads::ThreadError;
use bbq_spool::SpoolError;

/// Why the server did not start. Nothing was served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The event loop that waits for signals and for the end.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),
    /// The data directory.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// A listener.
    #[error("cannot listen on {spec}")]
    Listen {
        /// As configured.
        spec: String,
        /// What is wrong.
        source: ListenError,
    },
    /// The admin's address.
    #[error(
        "cannot listen on {address} for the admin{}; choose another with --admin, or --admin off",
        holder.as_ref().map(has_it).unwrap_or_default()
    )]
    Admin {
        /// Where.
        address: std::net::SocketAddr,
        /// The process that has the address, if the system tells.
        holder: Option<Holder>,
        /// What the system said.
        source: io::Error,
    },
    /// The address for probes.
    #[error(
        "cannot listen on {address} for probes{}; choose another with --probe, or leave it out",
        holder.as_ref().map(has_it).unwrap_or_default()
    )]
    Probe {
        /// Where.
        address: std::net::SocketAddr,
        /// The process that has the address, if the system tells.
        holder: Option<Holder>,
        /// What the system said.
        source: io::Error,
    },
    /// Sockets that were handed over by systemd.
    #[error("cannot take the sockets of LISTEN_FDS")]
    Activation(#[source] io::Error),
    /// Sockets from systemd that the configuration does not name.
    #[error(
        "systemd handed over {sockets}, which no listener names; add it to the configuration, or remove it from the socket unit"
    )]
    Unclaimed {
        /// Their addresses.
        sockets: String,
    },
    /// The hand-over by another server.
    #[error("the server to take over from ended or sent no valid message")]
    Upgrade(#[source] io::Error),
    /// A sink.
    #[error("sink {spec}: {problem}")]
    Sink {
        /// As configured.
        spec: String,
        /// What is wrong.
        problem: String,
    },
    /// A reader of files.
    #[error("cannot read {spec}")]
    Reader {
        /// As configured.
        spec: String,
        /// What is wrong.
        source: bbq_read::ReadError,
    },
    /// Too few file descriptors.
    #[error(
        "the limit of {limit} file descriptors leaves too few for connections; at least {needed} are needed: raise it \
             (ulimit -n, systemd: LimitNOFILE=)"
    )]
    Descriptors {
        /// The limit.
        limit: u64,
        /// The minimum.
        needed: u64,
    },
    /// A signal asked for a stop before the server served. Nothing is wrong.
    #[error("stopped by a signal before it served")]
    Stopped,
    /// The table of the senders' streams.
    #[error("cannot read which messages of each sender are already stored")]
    Streams(#[source] io::Error),
    /// A thread could not be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

impl StartError {
    /// Whether the configuration is at fault, rather than the system.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            StartError::Config(_) | StartError::Spool(SpoolError::LimitTooSmall { .. }) => true,
            StartError::Listen { source, .. } => source.is_usage(),
            _ => false,
        }
    }
}

fn has_it(holder: &Holder) -> String {
    if holder.pid == std::process::id() {
        ", as another socket of this process has it".to_owned()
    } else {
        format!(", as {holder} has it")
    }
}
