//! Which worker does not come around.

pub(crate) mod alarm;
pub(crate) mod pulse;
pub(crate) mod watch;
