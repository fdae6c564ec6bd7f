//! QUIC by quinn with an endpoint for each worker. The first byte of the connection ids that a worker chooses is its number, so a client
//! whose address changes comes to the same worker. Each stream gets the number back.
//!
//!     cargo run --release -p bbq-listen --example quic_worker -- 127.0.0.1:4433 server.crt server.key

use std::{net::UdpSocket, os::fd::AsFd, sync::Arc, thread, time::Duration};

use bbq_listen::{Distribution, Group, Steering, WorkerListener};
use quinn::{ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

const ID_BYTES: usize = 8;

/// Ids of a worker.
struct Ids(u8);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [self.0; ID_BYTES];
        // Without random numbers TLS has failed before.
        let _filled = getrandom::fill(&mut id[1..]);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

async fn answer(incoming: quinn::Incoming, worker: u8) -> Result<(), quinn::ConnectionError> {
    let connection = incoming.await?;
    loop {
        let (mut output, _input) = connection.accept_bi().await?;
        // It fails if the client has gone, which ends the loop.
        let _written = output.write_all(&[worker]).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn serve(listener: &WorkerListener, config: ServerConfig) -> anyhow::Result<()> {
    let worker = u8::try_from(listener.worker())?;
    let mut options = EndpointConfig::default();
    options.cid_generator(move || Box::new(Ids(worker)));
    let socket = UdpSocket::from(listener.socket().as_fd().try_clone_to_owned()?);
    let endpoint = Endpoint::new(options, Some(config), socket, Arc::new(TokioRuntime))?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(answer(incoming, worker));
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let [address, chain, key] = ["127.0.0.1:4433", "server.crt", "server.key"].map(str::to_owned);
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: String| arguments.next().unwrap_or(default);
    let (address, chain, key) = (argument(address), argument(chain), argument(key));
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<_, _>>()?;
    let config = ServerConfig::with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    let options = Group::at(&format!("udp://{address}"))?.workers(4).distribution(Distribution::Reuseport);
    let group = options.steering(Steering::ConnectionId { offset: 0, bits: 8 }).activated_or_open()?;
    println!("listening on {}", group.local_address());
    thread::scope(|threads| {
        for listener in group.worker_listeners() {
            let config = config.clone();
            threads.spawn(move || serve(&listener, config).inspect_err(|error| eprintln!("{error:#}")));
        }
    });
    Ok(())
}
