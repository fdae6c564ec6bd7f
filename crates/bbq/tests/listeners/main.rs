//! The sockets of listeners: which are open, who takes what comes, and what is told of it.

mod descriptor_limit;
mod distributions;
mod evenness;
mod foreign_member;
mod idle_connections;
mod listen_setup;
mod steering;
#[path = "../support/mod.rs"]
mod support;
mod udp;
mod uneven_shares;
mod waiting_connections;
mod without_reuseport;
