//! How a group receives and sends datagrams.

#[path = "../common/mod.rs"]
mod common;
mod crafted_ports;
mod packets;
mod received;
mod reply_address;
mod send_batch;
mod udp_drops_are_seen;
