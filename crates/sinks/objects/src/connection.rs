//! How the SPEC says that a bucket is reached: by which proxy, and by whose certificates.

use std::path::PathBuf;

use bbq_sink::{Proxy, Resolver};
use bbq_spec::{ConfigError, Query};
use bbq_tls::ClientTls;
use object_store::RetryConfig;

use super::connector::Connector;

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    proxy: Proxy,
    tls: ClientTls,
}

impl Connection {
    /// Takes `proxy` and `tls_ca`.
    pub(super) fn take(shown: &str, query: &mut Query<'_>) -> Result<Connection, ConfigError> {
        let proxy = Proxy::take(shown, query)?;
        let ca = query.take("tls_ca", |path| Ok(PathBuf::from(path)))?;
        let tls = ClientTls { ca, certificate: None };
        tls.read().map_err(|error| ConfigError::new(format!("{shown:?}: {error}")))?;
        Ok(Connection { proxy, tls })
    }

    pub(super) fn connector(&self) -> Result<Connector, String> {
        let tls = self.tls.read().map_err(|error| error.to_string())?;
        let resolver = Resolver::start().map_err(|error| error.to_string())?;
        Ok(Connector::new(resolver, tls, &self.proxy))
    }
}

/// Of requests: the driver retries, so that a server that hangs is known at once.
pub(super) fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}
