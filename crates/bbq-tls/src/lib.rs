//! TLS as a listener sees it: its options, the files, the certificates in them, and what is served now; and as a sink sees it
//! (`client`, `connector`, and `failure` for what went wrong).
//!
//! Not here: the encrypted connections of listeners, and all of HTTP (bbq-server).
//! Invariant: a certificate that cannot be used never replaces one that is served.

#![forbid(unsafe_code)]

mod certificate_request;
mod certificates;
mod client;
mod connector;
mod failure;
mod files;
mod served;
mod tls;
mod validity;

pub use certificates::{Certificates, TlsFileError};
pub use client::ClientTls;
pub use connector::{Connected, TlsConnector};
pub use failure::Failure;
pub use files::TlsFiles;
pub use served::{HandshakeCounts, ServedTls};
pub use tls::Tls;
