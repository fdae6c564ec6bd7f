//! TLS as a sink uses it: whom it trusts, and what it shows.

use std::path::PathBuf;
use std::sync::Arc;

use bbq_spec::FileStamp;
use rustls::client::WantsClientCert;
use rustls::crypto::ring::default_provider;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use crate::certificates::{TlsFileError, authorities, certified, problem};
use crate::files::Stamp;

/// The files of a sink's TLS.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    /// The CAs of which one must have issued the server's certificate; `None` for those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate that the server asks for, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl ClientTls {
    /// Trusts nobody: for a connector that never uses TLS.
    ///
    /// # Errors
    /// rustls refuses its own defaults.
    pub fn nobody() -> Result<ClientConfig, TlsFileError> {
        Ok(builder(RootCertStore::empty())?.with_no_client_auth())
    }

    /// Reads the files.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn read(&self) -> Result<ClientConfig, TlsFileError> {
        let roots = match &self.ca {
            Some(path) => authorities("tls_ca", path)?,
            None => system_authorities()?,
        };
        let builder = builder(roots)?;
        let Some((certificate, key)) = &self.certificate else { return Ok(builder.with_no_client_auth()) };
        let certified = certified(certificate, key)?;
        Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))))
    }

    /// The stamp of the files as they are now; `None` for those that do not exist.
    pub(crate) fn stamp(&self) -> Stamp {
        let pair = self.certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.ca.iter().chain(pair).map(|path| FileStamp::of(path)).collect()
    }
}

fn builder(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsFileError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| problem("tls_ca", error.to_string()))?;
    Ok(builder.with_root_certificates(roots))
}

/// Those that the system trusts.
fn system_authorities() -> Result<RootCertStore, TlsFileError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Many systems have some that rustls cannot use.
    let (usable, _ignored) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let text = "the system has no CA certificates; install ca-certificates, or set tls_ca to a PEM file";
        return Err(problem("tls_ca", text.to_owned()));
    }
    Ok(roots)
}
