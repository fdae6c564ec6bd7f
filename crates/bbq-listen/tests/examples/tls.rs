//! If this fails, axum or tonic cannot be served over TLS, or such a server does not stop while a client keeps its connection.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

use rcgen::CertifiedKey;
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::example::{Example, command};
use crate::late::{GET, catching};

/// A certificate for `localhost`, and the files of it.
pub(crate) struct Identity {
    pub(crate) certificate: rcgen::Certificate,
    directory: TempDir,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("server.crt"), cert.pem()).unwrap();
        fs::write(directory.path().join("server.key"), signing_key.serialize_pem()).unwrap();
        Self { certificate: cert, directory }
    }

    /// Starts an example on a port of the system's choice.
    pub(crate) fn spawn(&self, name: &str) -> Example {
        Example::spawn(self.with_files(command(name).arg("127.0.0.1:0")))
    }

    /// Adds the files of the certificate and its key to the arguments.
    pub(crate) fn with_files<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.args(["server.crt", "server.key"].map(|file| self.directory.path().join(file)))
    }

    fn start(&self, name: &str) -> Example {
        catching(self.spawn(name))
    }

    fn connect(&self, server: &Example) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), server.connect())
    }
}

#[test]
fn axum_answers_and_stops_although_a_client_keeps_its_connection() {
    it_answers_and_stops_although_a_client_keeps_its_connection("axum_tls");
}

#[test]
fn hyper_answers_and_stops_although_a_client_keeps_its_connection() {
    it_answers_and_stops_although_a_client_keeps_its_connection("hyper_tls");
}

fn it_answers_and_stops_although_a_client_keeps_its_connection(name: &str) {
    let identity = Identity::new();
    let server = identity.start(name);
    // It begins no handshake.
    let silent = server.connect();
    let mut client = identity.connect(&server);
    client.write_all(GET).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("OK"), "{answer}");
    let mut kept = identity.connect(&server);
    kept.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(kept.read(&mut [0; 1024]).unwrap() > 0);
    assert!(server.terminate().success);
    drop((silent, kept));
}

#[test]
fn tonic_answers_and_stops_although_a_client_keeps_its_connection() {
    let identity = Identity::new();
    let server = identity.start("tonic_tls");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(identity.certificate.pem()))
            .domain_name("localhost");
        let endpoint = Endpoint::new(format!("https://{}", server.address)).unwrap().tls_config(tls).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        let answer = client.check(HealthCheckRequest { service: String::new() }).await.unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
        client
    });
    assert!(server.terminate().success);
    drop(client);
}
