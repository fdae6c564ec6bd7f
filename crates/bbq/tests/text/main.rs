//! Messages of senders that know nothing of bbq, and what a sink writes of them.
//!
//! One program for all of them, as each program costs seconds to link. A test that changes what belongs to its whole process
//! (limits, signals, who inherits orphans), runs itself again by its name, or needs the machine to itself has a program of its
//! own, beside this directory.

mod ack_levels;
mod binary;
mod deferred;
mod empty_records;
mod endless_line;
mod incomplete;
mod json_fields;
mod large_lines;
mod lines_to_file;
mod oversize;
mod sources;
#[path = "../support/mod.rs"]
mod support;
