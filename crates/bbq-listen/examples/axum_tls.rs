//! axum over TLS, with HTTP/2 for clients that want it: handshakes run beside each other, and one that hangs delays nobody.
//!
//!     cargo run --release -p bbq-listen --example axum_tls -- 127.0.0.1:8443 server.crt server.key
//!     curl --cacert ca.crt https://localhost:8443/

use std::sync::Arc;

use axum::{Router, routing::get};
use bbq_listen::{AsyncListener, Group};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn main() -> anyhow::Result<()> {
    let [address, chain, key] = ["127.0.0.1:8443", "server.crt", "server.key"].map(str::to_owned);
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: String| arguments.next().unwrap_or(default);
    let (address, chain, key) = (argument(address), argument(chain), argument(key));
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (config, app) = (Arc::new(config), Router::new().route("/", get(async || "OK")));
    let group = Group::at(&address)?.activated_or_open()?;
    println!("listening on {}", group.local_address());
    let serve = |listener: AsyncListener| {
        let failed = |peer, error| eprintln!("{peer}: {error}");
        listener.into_tls(config.clone()).on_failure(failed).serve_axum(app.clone())
    };
    group.run_tokio(serve)?;
    Ok(())
}
