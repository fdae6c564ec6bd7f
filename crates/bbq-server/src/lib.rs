//! bbq's server: takes messages in, keeps them on disk, hands them on.
//!
//! [`Server::start`] opens everything a [`Config`] names, or nothing; [`Server::wait`] returns when a signal has stopped
//! it and all is in order. What it is made of: workers (`worker`), the spool (bbq-spool), sinks (`sink`), and a control
//! thread for signals, admin and checkpoints (`control`).
//!
//! Invariant: whatever a peer, a disk or a configuration does, nothing here panics.
//! Invariant: control and sinks never run on a worker's thread.

#![forbid(unsafe_code)]

mod admin;
pub mod config;
mod control;
mod evenness;
mod foreign;
mod ledger;
mod occasional;
mod retention;
mod server;
mod sink;
pub mod status;
mod stop;
mod streams;
mod time;
mod worker;

pub use config::{Config, ConfigError, Overrides};
pub use server::{Server, StartError};
