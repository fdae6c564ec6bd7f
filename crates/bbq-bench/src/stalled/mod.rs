//! A worker of a running server that stalls: what is done to it from outside, the same for every server.
//!
//! Invariant: when one of these is dropped, the worker goes on.

mod frozen;
mod starved;
mod victim;

use std::time::Duration;

pub(crate) use frozen::{Awake, Frozen};
pub(crate) use starved::{STARVED, Starved};
pub(crate) use victim::Victim;

/// How long a worker is held, or blocked.
pub(crate) const STALL: Duration = Duration::from_secs(1);
