//! What a group opens, whom it lets in, and how connections are accepted.

mod abstract_names;
mod accept_bounds;
mod accept_delay;
mod accept_until;
mod adopted;
mod before_bind;
#[path = "../common/mod.rs"]
mod common;
mod evenness;
mod foreign_members;
mod guard;
mod options;
mod queue_is_seen;
mod refusals_help;
mod silent_peers;
mod sockets_per_distribution;
mod unix_files;
