//! Detection of workers that do not come back to their event loop.

pub(crate) mod alarm;
pub(crate) mod arrived;
pub(crate) mod heartbeat;
pub(crate) mod monitor;
#[cfg(feature = "tokio")]
pub(crate) mod runtime;
pub(crate) mod sleeper;
pub(crate) mod watch;
