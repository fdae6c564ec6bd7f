//! gRPC over TLS by tonic's own server. The service is tonic's health check, which needs no protoc.
//!
//!     cargo run --release -p bbq-listen --example tonic_tls -- 127.0.0.1:50051 server.crt server.key
//!     grpcurl -cacert ca.crt -d '{}' localhost:50051 grpc.health.v1.Health/Check

use std::sync::Arc;

use bbq_listen::Group;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::Server;
use tonic_health::server::health_reporter;

fn main() -> anyhow::Result<()> {
    let [address, chain, key] = ["127.0.0.1:50051", "server.crt", "server.key"].map(str::to_owned);
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: String| arguments.next().unwrap_or(default);
    let (address, chain, key) = (argument(address), argument(chain), argument(key));
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (config, (_reporter, health)) = (Arc::new(config), health_reporter());
    let router = Server::builder().add_service(health);
    let group = Group::at(&address)?.nodelay(true).activated_or_open()?;
    println!("listening on {}", group.local_address());
    group.run_tokio(|listener| listener.into_tls(config.clone()).serve_tonic(router.clone()))?;
    Ok(())
}
