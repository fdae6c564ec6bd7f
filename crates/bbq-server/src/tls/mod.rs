//! TLS as a listener sees it: the files, the certificates in them, and what is served now; and as a sink sees it
//! (`client`, `connector`, and `failure` for what went wrong). The encrypted connections are in `worker::stream`, those of HTTP in
//! `worker::http`, those of sinks in `sink::forward` and `sink::http`.
//!
//! Invariant: a certificate that cannot be used never replaces one that is served.

mod certificate_request;
mod certificates;
mod client;
mod connector;
mod failure;
mod files;
mod served;
mod validity;

pub(crate) use certificates::Certificates;
pub(crate) use client::ClientTls;
pub(crate) use connector::{Connected, TlsConnector};
pub(crate) use failure::Failure;
pub(crate) use files::TlsFiles;
pub(crate) use served::{HandshakeCounts, ServedTls};
