//! QUIC by quinn with an endpoint for each worker. The first byte of the connection ids that a worker chooses is its number, so a client
//! whose address changes comes to the same worker. Each stream gets the number back.
//!
//!     cargo run --release -p bbq-listen --example quic_worker -- 127.0.0.1:4433 server.crt server.key

#[path = "common/identity.rs"]
mod identity;
#[path = "common/quic_endpoint.rs"]
mod quic_endpoint;

use bbq_listen::{AsyncDatagrams, Distribution, Group, Steering};

async fn answer(incoming: quinn::Incoming, worker: u8) {
    let Ok(connection) = incoming.await else { return };
    while let Ok((mut output, _input)) = connection.accept_bi().await {
        // If the client has gone, there is no further stream.
        let _written = output.write_all(&[worker]).await;
    }
}

async fn serve(datagrams: AsyncDatagrams, config: quinn::ServerConfig) -> std::io::Result<()> {
    let (endpoint, worker) = quic_endpoint::endpoint(&datagrams, config)?;
    let accept = async {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(answer(incoming, worker));
        }
    };
    tokio::select! { () = accept => {}, () = datagrams.stopped() => endpoint.close(0_u32.into(), b"stop") }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let (address, (chain, key)) = identity::arguments("127.0.0.1:4433")?;
    let config = quinn::ServerConfig::with_single_cert(chain, key)?;
    let options = Group::at(&format!("udp://{address}"))?.workers(4).distribution(Distribution::Reuseport);
    let group = options.steering(Steering::ConnectionId { offset: 0, bits: 8 }).activated_or_open()?;
    println!("listening on {}", group.local_address());
    Ok(group.run_tokio_datagrams(|datagrams| serve(datagrams, config.clone()))?)
}
