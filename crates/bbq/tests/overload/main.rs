//! More than a server can take: what waits, what is dropped, and how it is told.

mod drops_told;
mod fairness;
mod full_disk;
mod memory_limit;
mod spool_limit;
#[path = "../support/mod.rs"]
mod support;
mod thin_disk;
