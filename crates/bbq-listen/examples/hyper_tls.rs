//! hyper over TLS, without a framework. `hyper_http` is the same without TLS, and takes more than `GET`.
//!
//!     cargo run --release -p bbq-listen --example hyper_tls -- 127.0.0.1:8443 server.crt server.key

#[path = "common/identity.rs"]
mod identity;

use std::{convert::Infallible, io, pin::pin, sync::Arc};

use bbq_listen::{AsyncListener, Group};
use http_body_util::Full;
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::{rt::TokioIo, rt::TokioTimer, server::graceful::GracefulShutdown};
use tokio_rustls::rustls::ServerConfig;

async fn serve(listener: AsyncListener, config: Arc<ServerConfig>) -> io::Result<()> {
    let (mut stopped, mut listener) = (pin!(listener.stopped()), listener.into_tls(config));
    let answer = service_fn(async |_request| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("OK"))));
    let (mut builder, connections) = (http1::Builder::new(), GracefulShutdown::new());
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let connection = builder.timer(TokioTimer::new()).serve_connection(TokioIo::new(accepted?.0), answer);
                tokio::spawn(connections.watch(connection));
            }
            () = &mut stopped => break,
        }
    }
    connections.shutdown().await;
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let (address, (chain, key)) = identity::arguments("127.0.0.1:8443")?;
    let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?);
    let group = Group::at(&address)?.activated_or_open()?;
    println!("listening on {}", group.local_address());
    Ok(group.run_tokio(|listener| serve(listener, config.clone()))?)
}
