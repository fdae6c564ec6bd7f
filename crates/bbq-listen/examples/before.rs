//! Servers as many are, on tokio's own listeners in one runtime: what bbq-listen is compared with. `hyper_http`, `tonic_hello`, `udp_echo`
//! and `quic_worker` do the same on a group; `axum_before` is a program of its own.
//!
//!     cargo run --release -p bbq-listen --example before -- hyper|tonic|udp|quic 127.0.0.1:8080 [server.crt server.key]

use std::convert::Infallible;

use http_body_util::Full;
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use quinn::{Endpoint, ServerConfig};
use tokio::net::{TcpListener, UdpSocket};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tonic::service::Routes;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (kind, address) = match &arguments[..] {
        [kind, address, ..] => (&kind[..], &address[..]),
        _ => anyhow::bail!("what to serve, and where: hyper|tonic|udp|quic ADDRESS [CHAIN KEY]"),
    };
    match kind {
        "hyper" => hyper(listen(address).await?).await,
        "tonic" => {
            let (_reporter, health) = tonic_health::server::health_reporter();
            Ok(axum::serve(listen(address).await?, Routes::new(health).into_axum_router()).await?)
        }
        "udp" => echo(address).await,
        "quic" => quic(address, arguments.get(2..4).unwrap_or_default()).await,
        _ => anyhow::bail!("{kind} is none of hyper, tonic, udp and quic"),
    }
}

async fn listen(address: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on tcp://{}", listener.local_addr()?);
    Ok(listener)
}

async fn hyper(listener: TcpListener) -> anyhow::Result<()> {
    let answer = service_fn(async |_request| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("OK"))));
    loop {
        let (stream, _peer) = listener.accept().await?;
        let mut builder = http1::Builder::new();
        tokio::spawn(builder.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), answer));
    }
}

async fn echo(address: &str) -> anyhow::Result<()> {
    let socket = UdpSocket::bind(address).await?;
    println!("listening on udp://{}", socket.local_addr()?);
    let mut buffer = vec![0; 65536];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer).await?;
        // A reply that finds no room is lost, as datagrams are.
        let _sent = socket.send_to(&buffer[..length], peer).await;
    }
}

async fn quic(address: &str, identity: &[String]) -> anyhow::Result<()> {
    let [chain, key] = identity else { anyhow::bail!("quic needs CHAIN and KEY") };
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<_, _>>()?;
    let config = ServerConfig::with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    let endpoint = Endpoint::server(config, address.parse()?)?;
    println!("listening on udp://{}", endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((mut output, _input)) = connection.accept_bi().await {
                let _written = output.write_all(b"0").await;
            }
        });
    }
    Ok(())
}
