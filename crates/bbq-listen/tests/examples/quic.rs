//! If this fails, a client of QUIC whose address changes comes to a worker that does not know its connection.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::Arc;

use quinn::{ClientConfig, Connection, Endpoint};
use tokio::time::timeout;
use tokio_rustls::rustls::RootCertStore;

use crate::example::ANSWER_TIMEOUT;
use crate::tls::Identity;

const CLIENTS: usize = 24;
const MOVES: usize = 4;

#[test]
fn clients_keep_their_worker_when_their_address_changes() {
    let identity = Identity::new();
    let server = identity.spawn("quic_worker");
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.der().clone()).unwrap();
    let config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut workers = BTreeSet::new();
        for _ in 0..CLIENTS {
            let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
            let connecting = endpoint.connect_with(config.clone(), server.address, "localhost").unwrap();
            let connection = timeout(ANSWER_TIMEOUT, connecting).await.unwrap().unwrap();
            let worker = ask(&connection).await;
            workers.insert(worker);
            for _ in 0..MOVES {
                // From another port.
                endpoint.rebind(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
                assert_eq!(ask(&connection).await, worker);
            }
        }
        // Four workers: one alone has all clients once in 10^14 runs.
        assert!(workers.len() > 1, "{workers:?}");
    });
}

/// The number of the worker.
pub(crate) async fn ask(connection: &Connection) -> u8 {
    let exchange = async {
        let (mut output, mut input) = connection.open_bi().await.unwrap();
        output.write_all(b"?").await.unwrap();
        let mut byte = [0];
        input.read_exact(&mut byte).await.unwrap();
        byte[0]
    };
    timeout(ANSWER_TIMEOUT, exchange).await.unwrap()
}
