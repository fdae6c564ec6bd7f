//! Seed 003's `stream` block: every connection is carried on to an upstream, both ways.
//!
//!     cargo run --release -p bbq-listen --example stream_proxy -- --listen 127.0.0.1:8081 --upstream 127.0.0.1:8080
//!
//! When one direction ends, it is ended on the other side, too, and the other direction continues. If a peer does not read, the
//! other one is not read, either, so at most one buffer waits. A connection without upstream is closed.

#[path = "../common/mod.rs"]
mod common;
mod pump;

use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use bbq_listen::{AsyncConnection, AsyncListener, Group};
use clap::Parser;
use pump::pump;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use tokio::sync::mpsc;

/// The time-out of a connection to the upstream.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Carries TCP connections on.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: common::Options,
    /// Where to: HOST:PORT
    #[arg(long, value_name = "ADDR")]
    upstream: String,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let upstream = arguments.upstream.strip_prefix("tcp://").unwrap_or(&arguments.upstream);
    let mut found = upstream.to_socket_addrs().with_context(|| format!("--upstream {upstream}"))?;
    let upstream = found.next().with_context(|| format!("--upstream {upstream}: no address"))?;
    let group = arguments.options.open(common::address(&arguments.options.listen)?)?;
    common::serve(&[&group], |worker, stop| work(&group, worker, stop, upstream))
}

#[derive(Debug, Default)]
struct Totals {
    failed: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
}

impl Totals {
    fn up(&self, bytes: usize) {
        self.bytes_up.fetch_add(bytes as u64, Relaxed);
    }

    fn down(&self, bytes: usize) {
        self.bytes_down.fetch_add(bytes as u64, Relaxed);
    }
}

async fn work(
    group: &Group,
    worker: usize,
    stop: common::Stop,
    upstream: SocketAddr,
) -> anyhow::Result<String> {
    let listener = AsyncListener::new(group.worker_listener(worker)?)?;
    let totals = Arc::new(Totals::default());
    let (in_progress, mut finished) = mpsc::channel::<Infallible>(1);
    let mut connections = 0_u64;
    common::accept(listener, stop, |accepted| {
        connections += 1;
        let (totals, in_progress) = (Arc::clone(&totals), in_progress.clone());
        tokio::spawn(async move {
            let _in_progress = in_progress;
            if carry(accepted.stream, upstream, &totals).await.is_err() {
                totals.failed.fetch_add(1, Relaxed);
            }
        });
    })
    .await?;
    drop(in_progress);
    let _ = tokio::time::timeout(common::DRAIN_TIMEOUT, finished.recv()).await;
    Ok(format!(
        "{connections} connections, {} bytes up, {} bytes down, {} without upstream",
        totals.bytes_up.load(Relaxed),
        totals.bytes_down.load(Relaxed),
        totals.failed.load(Relaxed)
    ))
}

/// Forwards one connection until both directions have ended. An error means that the upstream is not reachable.
async fn carry(client: OwnedFd, upstream: SocketAddr, totals: &Arc<Totals>) -> std::io::Result<()> {
    let server = tokio::time::timeout(CONNECT_TIMEOUT, reach(upstream)).await??;
    // Bytes are forwarded at once, without waiting for acknowledgements. Unix sockets refuse the option, and do not need it.
    let _ = sockopt::set_tcp_nodelay(&client, true);
    let (client, server) = (Arc::new(AsyncConnection::for_both(client)?), Arc::new(server));
    // A task for each direction: an event wakes the one it is for.
    let (up, back) = (Arc::clone(totals), Arc::clone(totals));
    let down = tokio::spawn(pump(Arc::clone(&server), Arc::clone(&client), move |bytes| back.down(bytes)));
    pump(client, server, move |bytes| up.up(bytes)).await;
    let _ = down.await;
    Ok(())
}

async fn reach(upstream: SocketAddr) -> std::io::Result<AsyncConnection> {
    let family = if upstream.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &upstream) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let connection = AsyncConnection::for_both(socket)?;
    drop(connection.writable().await?);
    sockopt::socket_error(&connection)??;
    Ok(connection)
}
