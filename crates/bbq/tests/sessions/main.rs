//! Sessions of bbq clients, and streams.
//!
//! One program for all of them, as each program costs seconds to link. A test that changes what belongs to its whole process
//! (limits, signals, who inherits orphans), runs itself again by its name, or needs the machine to itself has a program of its
//! own, beside this directory.

mod admin_connections;
mod bad_batches;
mod late_hello;
mod order;
mod origin;
mod second_server;
#[path = "../support/mod.rs"]
mod support;
mod timeouts;
mod unfinished_batches;
mod unknown_end;
