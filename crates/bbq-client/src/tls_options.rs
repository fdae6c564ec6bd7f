//! The options of a sender for TLS, as they are named: their files are read by `delivery::tls`.

use std::path::PathBuf;

use crate::{ServerAddress, StartError};

#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    /// PEM file with the certificates of the CAs that are trusted, instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// PEM file with the certificate of the client, and those between it and its CA.
    pub(crate) cert: Option<PathBuf>,
    /// PEM file with the key of `cert`.
    pub(crate) key: Option<PathBuf>,
    /// The name in the certificates of the servers, if it is not the host of their addresses.
    pub(crate) server_name: Option<String>,
}

impl TlsOptions {
    /// Fails if the options contradict each other or the servers.
    pub(crate) fn check(&self, servers: &[ServerAddress]) -> Result<(), StartError> {
        let wrong = |option, value: &str, problem: &str| {
            Err(StartError::Tls { option, value: value.to_owned(), problem: problem.to_owned() })
        };
        let mut given = [("tls_ca", &self.ca), ("tls_cert", &self.cert), ("tls_key", &self.key)]
            .into_iter()
            .filter_map(|(option, path)| Some((option, path.as_ref()?.display().to_string())))
            .chain(self.server_name.clone().map(|name| ("tls_server_name", name)));
        let server = servers.iter().find(|server| matches!(server, ServerAddress::Tls(_)));
        match (server, given.next()) {
            (Some(server), _) if cfg!(not(feature = "tls")) => wrong(
                "server",
                &server.to_string(),
                "this bbq-client is built without TLS; build it with its feature `tls`",
            ),
            (None, Some((option, value))) => wrong(
                option,
                &value,
                "no server is reached over TLS; write bbq+tls://HOST:PORT, or remove the option",
            ),
            _ => match (&self.cert, &self.key) {
                (Some(cert), None) => {
                    wrong("tls_cert", &cert.display().to_string(), "its key is missing; also set tls_key")
                }
                (None, Some(key)) => wrong(
                    "tls_key",
                    &key.display().to_string(),
                    "its certificate is missing; also set tls_cert",
                ),
                _ => Ok(()),
            },
        }
    }
}
