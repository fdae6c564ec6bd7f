//! axum-server on the socket of a group: the address has one owner, and the socket can be passed on. axum-server accepts by itself,
//! so one runtime with several threads serves the socket.
//!
//!     cargo run --release -p bbq-listen --example axum_server -- 127.0.0.1:8080

use std::net::TcpListener;
use std::os::fd::AsFd;

use axum::{Router, routing::get};
use axum_server::Handle;
use bbq_listen::{DRAIN_TIMEOUT, FIRST_BYTE_GRACE_DEFAULT, Group};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let group = Group::at(&address)?.workers(1).activated_or_open()?;
    let socket = TcpListener::from(group.worker_listener(0)?.socket().as_fd().try_clone_to_owned()?);
    println!("listening on {}", group.local_address());
    let (handle, mut terminate) = (Handle::new(), signal(SignalKind::terminate())?);
    tokio::spawn({
        let handle = handle.clone();
        async move {
            terminate.recv().await;
            // Clients that have just connected send their first requests.
            tokio::time::sleep(FIRST_BYTE_GRACE_DEFAULT).await;
            handle.graceful_shutdown(Some(DRAIN_TIMEOUT));
        }
    });
    let app = Router::new().route("/", get(async || "OK"));
    axum_server::from_tcp(socket)?.handle(handle).serve(app.into_make_service()).await?;
    Ok(())
}
