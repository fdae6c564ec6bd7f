//! bbq's server: takes messages in, keeps them on disk, hands them on.
//!
//! [`Server::start`] opens everything a [`Config`] names, or nothing; [`Server::wait`] returns when a signal has stopped
//! it and all is in order. What it is made of: sockets (`listeners`), which outlive the rest; what runs between them and the
//! disk (`running`): workers (`worker`), the spool (bbq-spool), sinks (`sink`); and a control thread for signals, admin,
//! checkpoints, reload and upgrade (`control`).
//!
//! Invariant: whatever a peer, a disk or a configuration does, nothing here panics.
//! Invariant: control and sinks never run on a worker's thread.

#![forbid(unsafe_code)]

mod activation;
mod admin;
mod changes;
pub mod config;
mod control;
mod evenness;
mod foreign;
mod ledger;
mod listeners;
mod notify;
mod occasional;
mod reload;
mod retention;
mod running;
mod server;
mod signals;
mod sink;
pub mod status;
mod stop;
mod streams;
mod time;
mod upgrade;
mod worker;

pub use config::{Config, ConfigError, ConfigSource, Overrides};
pub use server::{Server, StartError};
pub use upgrade::Program;
