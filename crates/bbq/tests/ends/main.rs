//! Stops that were asked for.
//!
//! One program for all of them, as each program costs seconds to link. A test that changes what belongs to its whole process
//! (limits, signals, who inherits orphans), runs itself again by its name, or needs the machine to itself has a program of its
//! own, beside this directory.

mod drain;
mod drain_timeout;
mod stop_while_settling;
mod stop_with_slow_syncs;
#[path = "../support/mod.rs"]
mod support;
mod waits_for_room;
