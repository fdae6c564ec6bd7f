//! Messages of senders that know nothing of bbq, and what a sink writes of them.

mod ack_levels;
mod binary;
mod deferred;
mod empty_records;
mod endless_line;
mod filters;
mod incomplete;
mod json_fields;
mod large_lines;
mod lines_to_file;
mod mixed_framing;
mod oversize;
mod senders;
mod sources;
#[path = "../support/mod.rs"]
mod support;
