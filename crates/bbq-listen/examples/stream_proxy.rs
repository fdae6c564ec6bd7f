//! Seed 003's `stream` block: every connection is carried on to an upstream, both ways.
//!
//!     cargo run --release -p bbq-listen --example stream_proxy -- --listen 127.0.0.1:8081 --upstream 127.0.0.1:8080
//!
//! When one direction ends, it is ended on the other side, too, and the other direction continues. If a peer does not read, the
//! other one is not read, either, so at most one buffer waits. A connection without upstream is closed.
//!
//! A stop closes connections on which neither side has sent anything; on the others, both have five seconds to end.

#[path = "common/front_door.rs"]
mod front_door;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::Result;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::Context as _;
use bbq_listen::{AsyncListener, CountedStream};
use clap::Parser;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// The time-out of a connection to the upstream.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one read, and all that waits for a slow peer: large enough that the calls cost little beside the copying.
const BUFFER_BYTES: usize = 64 * 1024;

thread_local! {
    /// For all connections of a worker: what cannot be written at once is kept by the connection.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_BYTES].into());
}

/// Carries TCP connections on.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: front_door::Options,
    /// Where to: HOST:PORT
    #[arg(long, value_name = "ADDR")]
    upstream: String,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let upstream = arguments.upstream.strip_prefix("tcp://").unwrap_or(&arguments.upstream);
    let mut found = upstream.to_socket_addrs().with_context(|| format!("--upstream {upstream}"))?;
    let upstream = found.next().with_context(|| format!("--upstream {upstream}: no address"))?;
    let group = arguments.options.open()?;
    group.run_tokio(|listener| work(front_door::announced(&group, listener), upstream))?;
    for (worker, connections) in group.taken().iter().enumerate() {
        println!("worker {worker}: {connections} connections");
    }
    Ok(())
}

async fn work(mut listener: AsyncListener, upstream: SocketAddr) -> Result<()> {
    let mut stopped = pin!(listener.stopped());
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                tokio::spawn(carry(accepted?.0, upstream, listener.stopped()));
            }
            () = &mut stopped => return Ok(()),
        }
    }
}

/// Carries one connection until both directions have ended, or one is broken.
async fn carry(client: CountedStream, upstream: SocketAddr, stopped: impl Future<Output = ()>) -> Result<()> {
    let reached = timeout(CONNECT_TIMEOUT, TcpStream::connect(upstream)).await;
    let server = reached
        .unwrap_or_else(|late| Err(late.into()))
        .inspect_err(|error| eprintln!("upstream {upstream}: {error}"))?;
    // Bytes are forwarded at once, without waiting for acknowledgements.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::select! {
        biased;
        ready = client.readable() => ready?,
        ready = server.readable() => ready?,
        () = stopped => return Ok(()),
    }
    let (client, _open) = client.into_parts();
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::try_join!(pump(from_client, to_server), pump(from_server, to_client)).map(drop)
}

/// Writes to `to` what `from` reads, until the end.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Result<()> {
    loop {
        let transfer = |context: &mut Context<'_>| {
            BUFFER.with_borrow_mut(|buffer| {
                let mut read = ReadBuf::new(&mut buffer[..]);
                ready!(Pin::new(&mut from).poll_read(context, &mut read))?;
                let written = to.try_write(read.filled()).unwrap_or(0); // an error comes again below
                Poll::Ready(Result::Ok((read.filled().is_empty(), read.filled()[written..].to_vec())))
            })
        };
        match poll_fn(transfer).await? {
            (true, _) => return to.shutdown().await,
            (false, rest) => to.write_all(&rest).await?,
        }
    }
}
