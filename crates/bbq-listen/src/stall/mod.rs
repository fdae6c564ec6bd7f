//! Which worker does not come around.

pub(crate) mod alarm;
pub(crate) mod heartbeat;
pub(crate) mod monitor;
