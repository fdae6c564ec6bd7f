//! Seed 003's `stream` block: every connection is carried on to an upstream, both ways.
//!
//!     cargo run --release -p bbq-listen --example stream_proxy -- --listen 127.0.0.1:8081 --upstream 127.0.0.1:8080
//!
//! A direction that ends is ended on the other side, and the other goes on. A peer that does not read stops the other one
//! from being read: what waits for it is one buffer. A connection without upstream is closed.

mod common;

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use bbq_listen::{AsyncConnection, AsyncListener, Errno, Group};
use clap::Parser;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, connect, recv, send, shutdown,
    socket_with, sockopt,
};
use tokio::sync::mpsc;

/// Bytes of one read, and all that waits for a slow peer: large enough that the calls cost little beside the copying.
const BUFFER_BYTES: usize = 64 * 1024;
/// Reads of one direction before others have a turn.
const READS_PER_TURN_MAX: usize = 16;
/// An upstream that does not answer for so long is not there.
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

async fn work(
    group: &Group,
    worker: usize,
    stop: common::Stop,
    upstream: SocketAddr,
) -> anyhow::Result<String> {
    let listener = AsyncListener::new(group.seat(worker)?)?;
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

/// Carries one connection until both directions have ended. An error: the upstream is not there.
async fn carry(client: OwnedFd, upstream: SocketAddr, totals: &Arc<Totals>) -> std::io::Result<()> {
    let server = tokio::time::timeout(CONNECT_TIMEOUT, reach(upstream)).await??;
    // The bytes go on as they come, whatever has been acknowledged. A unix client refuses, and needs it not.
    let _ = sockopt::set_tcp_nodelay(&client, true);
    let (client, server) = (Arc::new(AsyncConnection::for_both(client)?), Arc::new(server));
    // A task for each direction: an event wakes the one it is for.
    let down = tokio::spawn(pump(Arc::clone(&server), Arc::clone(&client), Arc::clone(totals), false));
    pump(client, server, Arc::clone(totals), true).await;
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

thread_local! {
    /// For all connections of a worker: what cannot be written at once is kept by the connection.
    static BUFFER: RefCell<Box<[u8; BUFFER_BYTES]>> = RefCell::new(Box::new([0; BUFFER_BYTES]));
}

/// What a direction does next.
enum Step {
    /// Wait for the one to be readable.
    Read,
    /// Wait for the other to take the rest.
    Write(Vec<u8>),
    /// It has more: let others run.
    Turn,
    Ended,
    Broken,
}

/// Carries what comes from `from` to `to` until it ends.
async fn pump(from: Arc<AsyncConnection>, to: Arc<AsyncConnection>, totals: Arc<Totals>, up: bool) {
    let counter = if up { &totals.bytes_up } else { &totals.bytes_down };
    loop {
        let Ok(mut ready) = from.readable().await else { return };
        match transfer(&from, &to, counter) {
            Step::Read => ready.clear_ready(),
            Step::Turn => tokio::task::yield_now().await,
            Step::Write(rest) => {
                if write_rest(&to, rest).await.is_err() {
                    return end_both(&from, &to);
                }
            }
            // The other direction may go on for long.
            Step::Ended => {
                let _ = shutdown(&to, Shutdown::Write);
                return;
            }
            Step::Broken => return end_both(&from, &to),
        }
    }
}

fn transfer(from: &AsyncConnection, to: &AsyncConnection, counter: &AtomicU64) -> Step {
    BUFFER.with_borrow_mut(|buffer| {
        for _ in 0..READS_PER_TURN_MAX {
            let length = match recv(from, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Step::Ended,
                Ok((length, _)) => length,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Step::Read,
                Err(_) => return Step::Broken,
            };
            counter.fetch_add(length as u64, Relaxed);
            match write(to, &buffer[..length]) {
                Ok(written) if written < length => return Step::Write(buffer[written..length].to_vec()),
                Ok(_) if length < BUFFER_BYTES => return Step::Read, // nothing is left, and the next byte wakes us
                Ok(_) => {}
                Err(_) => return Step::Broken,
            }
        }
        Step::Turn
    })
}

/// Writes until it would block; returns how much.
fn write(to: &AsyncConnection, bytes: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match send(to, &bytes[written..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(length) => written += length,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(written)
}

async fn write_rest(to: &AsyncConnection, mut rest: Vec<u8>) -> std::io::Result<()> {
    while !rest.is_empty() {
        let mut ready = to.writable().await?;
        rest.drain(..write(to, &rest)?);
        if !rest.is_empty() {
            ready.clear_ready();
        }
    }
    Ok(())
}

/// So that the task of the other direction ends, too.
fn end_both(from: &AsyncConnection, to: &AsyncConnection) {
    for connection in [from, to] {
        let _ = shutdown(connection, Shutdown::Both);
    }
}
