//! Who may send: the files of unix sockets, tokens, and the limits of a listener.
//!
//! One program for all of them, as each program costs seconds to link.

mod open_to_the_network;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
mod unix_files;
