//! What the server tells about itself: the status, the admin's routes, and the log lines that are repeated.

pub(crate) mod admin;
pub(crate) mod assembly;
pub(crate) mod changes;
pub(crate) mod check_thread;
pub(crate) mod checks;
pub(crate) mod drops;
pub(crate) mod evenness;
pub(crate) mod exposure;
pub(crate) mod findings;
pub(crate) mod foreign;
pub(crate) mod history;
pub(crate) mod metrics;
pub(crate) mod page;
pub(crate) mod reload_door;
pub(crate) mod routes;
mod series;
mod sink_door;
pub mod status;
pub(crate) mod tail;
