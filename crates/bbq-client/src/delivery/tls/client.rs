//! Makes TLS connections as the options say.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use crate::delivery::error::ConnectionError;
use crate::delivery::tls::failure::Peer;
use crate::delivery::tls::files::{self, Stamps};
use crate::delivery::tls::handshake;
use crate::delivery::tls::reader::Reader;
use crate::delivery::tls::writer::Writer;
use crate::options::Options;
use crate::tls_options::TlsOptions;
use crate::{SendError, ServerAddress, StartError};

pub(crate) struct Client {
    options: TlsOptions,
    /// Read once, when the sender is started. `None` if the options name CAs.
    system_roots: Option<Arc<RootCertStore>>,
    loaded: Mutex<Loaded>,
}

/// The configuration that was read from the files.
struct Loaded {
    /// The stamps of the files just before they were read.
    stamps: Stamps,
    configuration: Arc<ClientConfig>,
}

impl Client {
    /// Reads the files; `None` if no server is reached by TLS.
    pub(crate) fn open(options: &Options) -> Result<Option<Client>, StartError> {
        let mut hosts =
            options.servers.iter().filter(|server| matches!(server, ServerAddress::Tls(_))).peekable();
        if hosts.peek().is_none() {
            return Ok(None);
        }
        let options = options.tls.clone();
        for server in hosts {
            server_name(&options, server)?;
        }
        let system_roots = if options.ca.is_none() { Some(files::system_roots()?) } else { None };
        let loaded = Mutex::new(Loaded::read(&options, system_roots.as_ref())?);
        Ok(Some(Client { options, system_roots, loaded }))
    }

    /// Makes a TLS connection over a socket, within a time limit.
    pub(crate) fn connect(
        &self,
        socket: TcpStream,
        address: &ServerAddress,
        limit: Duration,
    ) -> Result<(Writer, Reader), ConnectionError> {
        let server = address.to_string();
        let found = server_name(&self.options, address).and_then(|name| Ok((name, self.configuration()?)));
        let (name, configuration) = found.map_err(|error| {
            let problem = error.to_string();
            ConnectionError::Lasting(SendError::Unreachable { server: server.clone(), problem })
        })?;
        let peer = Peer::new(server, &name, &self.options);
        handshake::run(socket, configuration, name, peer, limit)
    }

    /// The configuration in the files, which are read again if they have changed.
    fn configuration(&self) -> Result<Arc<ClientConfig>, StartError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.stamps != Stamps::of(&self.options) {
            *loaded = Loaded::read(&self.options, self.system_roots.as_ref())?;
        }
        Ok(Arc::clone(&loaded.configuration))
    }
}

impl Loaded {
    fn read(options: &TlsOptions, system: Option<&Arc<RootCertStore>>) -> Result<Loaded, StartError> {
        let stamps = Stamps::of(options);
        Ok(Loaded { stamps, configuration: Arc::new(files::configuration(options, system)?) })
    }
}

/// The name that must be in the server's certificate.
fn server_name(options: &TlsOptions, server: &ServerAddress) -> Result<ServerName<'static>, StartError> {
    let (option, value, name, problem) = match (&options.server_name, server) {
        (None, ServerAddress::Tls(address)) => (
            "server",
            server.to_string(),
            host_of(address),
            "its host cannot be in a certificate; set tls_server_name to the name that is",
        ),
        (name, _) => {
            let name = name.as_deref().unwrap_or_default();
            ("tls_server_name", name.to_owned(), name, "this is neither a DNS name nor an IP address")
        }
    };
    ServerName::try_from(name.to_owned()).map_err(|_| StartError::Tls {
        option,
        value,
        problem: problem.to_owned(),
    })
}

/// The host of `HOST:PORT`. An IPv6 address is without its brackets and its interface: a certificate has neither.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    match host.strip_prefix('[') {
        Some(host) => host.split(['%', ']']).next().unwrap_or_default(),
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_the_name_in_the_certificate() {
        for (address, host) in [
            ("logs.example:1", "logs.example"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("[fe80::1%2]:1", "fe80::1"),
            ("[::1]:1", "::1"),
        ] {
            assert_eq!(host_of(address), host);
            let server = ServerAddress::Tls(address.to_owned());
            assert_eq!(server_name(&TlsOptions::default(), &server).unwrap().to_str(), host);
        }
        let options = TlsOptions { server_name: Some("other".to_owned()), ..TlsOptions::default() };
        let server = ServerAddress::Tls("-:1".to_owned());
        assert_eq!(server_name(&options, &server).unwrap().to_str(), "other");
        let error = server_name(&TlsOptions::default(), &server).unwrap_err().to_string();
        assert!(error.starts_with("server bbq+tls://-:1: its host cannot"), "{error}");
    }
}
