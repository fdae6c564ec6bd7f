//! A NATS server for unit tests. It greets, and refuses what is published in the words that it was given, or never responds to it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bbq_format::Format;
use bbq_sink::Resolver;
use tokio::sync::mpsc::channel;

use super::credentials::Credentials;
use super::link::NatsLink;
use super::message::Encoding;
use super::server::Server;
use super::settings::NatsSettings;
use super::shared::{Remembered, Shared};
use super::subject;

/// A link, and its connection to a server. An empty `refusal` is none.
pub(super) async fn connect(refusal: &'static str) -> (NatsLink, Server) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the connection.
    std::thread::spawn(move || serve(listener.accept().unwrap().0, refusal));
    let encoding =
        Encoding { template: subject::parse("logs").unwrap(), format: Format::Raw, has_origin: false };
    let settings = Arc::new(NatsSettings {
        name: "test".to_owned(),
        shown: "nats://test".to_owned(),
        servers: vec![("127.0.0.1".to_owned(), port)],
        encoding,
        stream: None,
        creates: false,
        replicas: 1,
        progress: "bbq.progress".to_owned(),
        keep: Duration::ZERO,
        credentials: Credentials::None,
        tls: None,
    });
    let resolver = Resolver::start().unwrap();
    let server = Server::connect(&settings, &resolver).await.unwrap();
    let shared = Arc::new(Shared::new(Remembered::new().unwrap(), "raw").unwrap());
    let (groups, settled) = (channel(1).1, channel(1).0);
    (NatsLink::new(settings, resolver, shared, groups, settled), server)
}

fn serve(mut stream: TcpStream, refusal: &str) {
    stream
        .write_all(b"INFO {\"version\":\"2.12.1\",\"headers\":true,\"max_payload\":1000,\"proto\":1}\r\n")
        .unwrap();
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        if line.starts_with("PING") {
            stream.write_all(b"PONG\r\n").unwrap();
        } else if line.starts_with("HPUB") && !refusal.is_empty() {
            stream.write_all(format!("-ERR '{refusal}'\r\n").as_bytes()).unwrap();
        }
    }
}
