//! Sinks, and the spool that they read.
//!
//! One program for all of them, as each program costs seconds to link. A test that changes what belongs to its whole process
//! (limits, signals, who inherits orphans), runs itself again by its name, or needs the machine to itself has a program of its
//! own, beside this directory.

mod damaged_spool;
mod failed_lane;
mod failed_sync;
mod forward;
mod http;
mod http_names;
mod http_progress;
mod http_responses;
mod http_server;
mod lost_log;
mod names;
mod new_sink;
mod nonblocking_output;
mod read_error;
mod rotation_killed;
mod spool_tools;
mod status_addresses;
#[path = "../support/mod.rs"]
mod support;
mod two_sinks;
mod unwritten;
mod whole_groups;
