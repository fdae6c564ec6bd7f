//! What the SPEC of the sink says.

use std::time::Duration;

use bbq_tls::ClientTls;

use super::credentials::Credentials;
use super::message::Encoding;

/// A checked SPEC.
#[derive(Debug)]
pub(super) struct NatsSettings {
    /// Of the sink, for the log.
    pub(super) name: String,
    /// The SPEC without its options, for people.
    pub(super) shown: String,
    /// Hosts without brackets, and ports.
    pub(super) servers: Vec<(String, u16)>,
    pub(super) encoding: Encoding,
    pub(super) stream: Option<String>,
    pub(super) creates: bool,
    pub(super) replicas: u64,
    /// What is in front of the id in the subject of the progress.
    pub(super) progress: String,
    /// How long messages are kept after they were acknowledged.
    pub(super) keep: Duration,
    pub(super) credentials: Credentials,
    /// `None` for no TLS, unless the server asks for it.
    pub(super) tls: Option<ClientTls>,
}
