//! `Group::run_tokio`: how it serves, how it stops, and how it ends when a worker does.

#[path = "../common/mod.rs"]
mod common;

mod axum;
mod client;
mod datagrams;
mod ends;
mod grace;
mod hand_over;
mod resizes;
mod runner;
mod serves;
mod several;
mod stops;
mod tls;
mod unix;
