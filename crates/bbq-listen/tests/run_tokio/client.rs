//! A client and a server that answers each connection with one byte and keeps it until the client ends.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use bbq_listen::{AsyncListener, CountedStream, Group, TokioRunner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::common;

/// Longer than anything takes on a busy machine.
pub(crate) const LOST: Duration = Duration::from_secs(20);
/// Every distribution that tcp can have.
pub(crate) const DISTRIBUTIONS: [&str; 6] =
    ["reuseport", "shared", "accept-mutex", "handoff", "handoff=fewest", "duplicate=2"];

/// Runs `clients` beside a server, which is stopped when they have ended.
pub(crate) fn beside<Serving: IntoFuture<Output = io::Result<()>>>(
    group: &Group,
    serve: impl Fn(AsyncListener) -> Serving + Sync,
    clients: impl FnOnce(SocketAddr) + Send,
) {
    let (stop, stopped) = oneshot::channel::<()>();
    let to = common::port_of(group);
    thread::scope(|threads| {
        threads.spawn(move || {
            // Dropped at the end, or when an assertion fails.
            let _stop = stop;
            clients(to);
        });
        TokioRunner::new().serve(group, serve).run_until(async { drop(stopped.await) }).unwrap();
    });
}

/// A connection that fails the test instead of hanging it.
pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LOST)).unwrap();
    stream
}

/// The byte of the server.
pub(crate) fn answer(stream: &mut TcpStream) -> u8 {
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    byte[0]
}

/// Answers every connection with the number of the worker.
pub(crate) async fn greet(mut listener: AsyncListener) -> io::Result<()> {
    let worker = listener.worker_listener().worker() as u8;
    loop {
        let (stream, _peer) = listener.accept().await?;
        tokio::spawn(converse(stream, worker));
    }
}

/// Answers, and waits for the end.
pub(crate) async fn converse(mut stream: CountedStream, worker: u8) {
    let _ = stream.write_all(&[worker]).await;
    let _ = stream.read(&mut [0]).await;
}
