//! bbq senders (the library, and the program `bbq send`), and senders by HTTP.
//!
//! One program for all of them, as each program costs seconds to link. A test that changes what belongs to its whole process
//! (limits, signals, who inherits orphans), runs itself again by its name, or needs the machine to itself has a program of its
//! own, beside this directory.

mod bbq_client_at_text_listener;
mod client_killed;
mod client_server_killed;
mod client_servers;
mod client_stalled;
mod http;
mod send_addresses;
mod send_failures;
mod send_lines;
#[path = "../support/mod.rs"]
mod support;
