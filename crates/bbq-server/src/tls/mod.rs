//! TLS as a listener sees it: the files, the certificates in them, and what is served now; and as a sink sees it (`client`). The
//! encrypted connections are in `worker::stream`, those of HTTP in `worker::http`, those of sinks in `sink::http`.
//!
//! Invariant: a certificate that cannot be used never replaces one that is served.

mod certificates;
mod client;
mod files;
mod served;
mod validity;

pub(crate) use certificates::Certificates;
pub(crate) use client::ClientTls;
pub(crate) use files::TlsFiles;
pub(crate) use served::{HandshakeCounts, ServedTls};
