//! Whole runs of bbq with a simulated disk, network and clock: each from one seed, on one thread, and the same every time.
//!
//! ```text
//! clients --bytes, late, cut, in pieces--> server: sessions -> lanes -> acknowledgements
//!    |                                                            \-> sinks -> outputs
//! their own disks                                        its disk: page cache | what is durable
//! ```
//!
//! A run uses the real code of bbq-spool (writer, recovery, readers, cursors, retirement of segments), bbq-wire (the codec at
//! both ends), bbq-client (all of a sender except threads and sockets) and parts of bbq-server: the table of streams, sessions,
//! acknowledgements, retention and the file sink. docs/reliability/simulation.md says what is promised and checked, and what is a model.
//!
//! Invariant: nothing here reads a clock or starts a thread within a run; all random numbers come from the seed.
//! Invariant: the checks are about what a user sees: acknowledgements, outputs, refusals, the ledger.

pub mod bug;
mod client;
mod crowd;
pub mod disk;
mod history;
pub mod kind;
mod late_sync;
mod network;
mod plan;
pub mod random;
mod receiver;
mod record;
pub mod run;
mod server;
mod servers;
mod stale;
mod tiers;
mod tokens;
pub mod trace;
mod world;
