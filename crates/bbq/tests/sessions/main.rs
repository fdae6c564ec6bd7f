//! Sessions of bbq clients, and streams.

mod admin_connections;
mod bad_batches;
mod forgotten;
mod growth;
mod late_hello;
mod order;
mod origin;
mod own_stream;
mod quiet_sessions;
mod second_server;
#[path = "../support/mod.rs"]
mod support;
mod timeouts;
mod unfinished_batches;
mod unknown_end;
