//! What bbq's server tells about itself: the status, the admin's routes, and the log lines that are repeated.
//!
//! [`Parts`] is what can be looked at, and says everything of it as a [`Status`](status::Status). The [`Admin`] shows it by HTTP, and the
//! [`CheckThread`] looks at what takes time.
//!
//! Invariant: nothing here runs on a worker's thread, and nothing that messages depend on waits for it.

#![forbid(unsafe_code)]

mod admin;
mod assembly;
mod changes;
mod check_thread;
mod checks;
mod drops;
mod evenness;
mod exposure;
mod findings;
mod foreign;
mod history;
mod listener;
mod metrics;
mod page;
mod parts;
mod reader;
mod reload_door;
mod routes;
mod series;
mod sink_door;
pub mod status;
mod tail;

pub use admin::{Admin, AdminSockets, PROBE_CONNECTIONS_MAX};
pub use changes::Changes;
pub use check_thread::CheckThread;
pub use exposure::exposure;
pub use listener::Listener;
pub use parts::Parts;
pub use reader::Reader;
pub use reload_door::{ReloadRequest, ReloadRequests};
pub use tail::{FACILITIES, SEVERITIES};
