//! TLS as a SPEC configures it. The files are read and checked with the rest of the configuration.

use std::path::PathBuf;

use bbq_spec::{ConfigError, Query};

use crate::certificates::Certificates;
use crate::files::TlsFiles;

/// A listener's TLS. Two values are equal if they name the same files and the same protocol. So a new certificate in the same
/// file does not change the configuration.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Where certificates and keys are.
    pub files: TlsFiles,
    /// The protocol inside TLS that clients may request by name (ALPN); empty if there is no name for it.
    pub application: &'static [&'static [u8]],
    /// The certificates as they were when the configuration was read.
    pub certificates: Certificates,
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        (&self.files, self.application) == (&other.files, other.application)
    }
}

impl Eq for Tls {}

impl Tls {
    /// Takes the options of TLS; returns `None` if there are none.
    ///
    /// # Errors
    /// The options contradict each other, or a file cannot be used.
    pub fn take(
        query: &mut Query<'_>,
        spec: &str,
        application: &'static [&'static [u8]],
    ) -> Result<Option<Tls>, ConfigError> {
        let wrong = |text: &str| Err(ConfigError::new(format!("{spec:?}: {text}")));
        let certificates = query.take("tls_cert", paths)?;
        let keys = query.take("tls_key", paths)?;
        let client_ca = query.take("tls_client_ca", |path| paths(path).map(|_| PathBuf::from(path)))?;
        let (certificates, keys) = match (certificates, keys) {
            (Some(certificates), Some(keys)) => (certificates, keys),
            (Some(_), None) => {
                return wrong(
                    "tls_cert needs the key of the certificate; also write tls_key=PATH, and quote the whole SPEC in a shell, which cuts \
                     it off at &",
                );
            }
            (None, Some(_)) => return wrong("tls_key needs its certificate; also write tls_cert=PATH"),
            (None, None) if client_ca.is_some() => {
                return wrong("tls_client_ca needs TLS; also write tls_cert=PATH and tls_key=PATH");
            }
            (None, None) => return Ok(None),
        };
        if certificates.len() != keys.len() {
            let (certificates, keys) = (certificates.len(), keys.len());
            return wrong(&format!(
                "tls_cert names {certificates} files and tls_key {keys}; write one key for each certificate, in the same order"
            ));
        }
        let files = TlsFiles { certificates, keys, client_ca };
        let certificates = Certificates::read(&files, application)
            .map_err(|error| ConfigError::new(format!("{spec:?}: {error}")))?;
        Ok(Some(Tls { files, application, certificates }))
    }
}

fn paths(text: &str) -> Result<Vec<PathBuf>, String> {
    let paths: Vec<PathBuf> = text.split(',').map(PathBuf::from).collect();
    if paths.iter().any(|path| path.as_os_str().is_empty()) {
        return Err(format!("{text:?} has an empty path; write PATH, or PATH,PATH for several"));
    }
    Ok(paths)
}
