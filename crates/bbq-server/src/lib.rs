//! bbq's server: receives messages, stores them on disk, and delivers them to sinks.
//!
//! [`Server::start`] opens everything a [`Config`] names, or nothing; [`Server::wait`] returns when a signal has stopped
//! the server and every thread has ended.
//!
//! [`Server::builder`] makes a server inside another program, whose [`Handler`]s get the messages.
//!
//! - `lifecycle` starts, changes and ends the server: the sockets, the threads, signals, reload and upgrade.
//! - `sinks` lists the kinds of sinks.
//!
//! What is configured is read by bbq-config. Messages are received by bbq-intake, and delivered by the crates of sinks. bbq-observe tells how
//! the server is.
//!
//! Invariant: no peer, disk or configuration makes this crate panic.
//! Invariant: control and sinks never run on a worker's thread.

#![forbid(unsafe_code)]

mod error;
mod lifecycle;
mod sinks;

pub use bbq_format::{Format, Formatter};
pub use bbq_listen::Address;
pub use bbq_observe::{FACILITIES, SEVERITIES, status};
pub use bbq_sink::{Kind as SinkKind, Kinds};
pub use bbq_sink_handler::{Handler, HandlerError, Message, Messages, ParsePositionError, Position};
pub use bbq_wire::{Peer, StreamId};
pub use config::{Config, ConfigError, ConfigSource, Overrides};
pub use error::StartError;
pub use lifecycle::builder::ServerBuilder;
pub use lifecycle::server::Server;
pub use lifecycle::signals::Signals;
pub use lifecycle::upgrade::Program;
pub use sinks::{KINDS, SINK_KINDS};

/// What to serve: the file, its keys, and the options of listeners and sinks.
pub mod config {
    pub use bbq_config::*;
    pub use bbq_intake::{
        ListenSpec, OnFull, PROTOCOLS, Protocol, Silence, TokenFile, UnixFile, listen_options,
    };
    pub use bbq_read::{ReadSpec, read_options};
    pub use bbq_sink::SinkSpec;
    pub use bbq_spec::{ConfigError, NAME_OPTION, SECRET_BYTES_MAX, Secret, SpecOption, Values, parse_bytes};
    pub use bbq_tls::Tls;
}
