//! A server that reads files: each line once, and in order, whatever happens to files and server.

mod files;
mod filtered;
mod full;
mod journal;
mod json;
mod killed;
mod only;
mod paused;
mod refused;
#[path = "../support/mod.rs"]
mod support;
