//! Connections through TLS, of real clients and of a test's own, and what is refused of them.
//!
//! One program for all of them, as each program costs seconds to link.

mod authority;
mod certificates_replaced;
mod client;
mod configuration;
mod real_tls_clients;
mod refused;
#[path = "../support/mod.rs"]
mod support;
mod through_tls;
