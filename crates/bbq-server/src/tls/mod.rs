//! TLS as a listener sees it: the files, the certificates in them, and what is served now. The encrypted connections are in
//! `worker::stream`, those of HTTP in `worker::http`.
//!
//! Invariant: a certificate that cannot be used never replaces one that is served.

mod certificates;
mod files;
mod served;
mod validity;

pub(crate) use certificates::Certificates;
pub(crate) use files::TlsFiles;
pub(crate) use served::{HandshakeCounts, ServedTls};
