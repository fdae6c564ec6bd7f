//! Accepts the connections of a worker of a unix socket on a tokio runtime, one at a time.
//!
//! It is an `AsyncListener`, whose connections are streams of another type.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use tokio::net::UnixStream;
use tokio::net::unix::SocketAddr;

use crate::tokio::counted_stream::CountedStream;
use crate::{AsyncListener, Transport, WorkerListener};

/// Accepts the connections of one worker of a group of unix sockets: [`AsyncListener::into_unix`].
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let group = bbq_listen::Group::at("unix:///run/server.sock")?.open()?;
/// group.run_tokio(async |listener| {
///     let mut listener = listener.into_unix()?;
///     loop {
///         let (stream, _unnamed) = listener.accept().await?;
///         println!("user {} has connected", stream.peer_cred()?.uid());
///     }
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncUnixListener {
    listener: AsyncListener,
}

impl AsyncListener {
    /// For a group of unix sockets: a listener whose connections are unix streams.
    ///
    /// # Errors
    /// If the group is not of unix sockets.
    pub fn into_unix(self) -> io::Result<AsyncUnixListener> {
        if self.transport() != Transport::Unix {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{} is not a unix socket", self.worker_listener().address()),
            ));
        }
        Ok(AsyncUnixListener { listener: self })
    }
}

impl AsyncUnixListener {
    /// The worker it accepts for.
    pub fn worker_listener(&self) -> &WorkerListener {
        self.listener.worker_listener()
    }

    /// As [`AsyncListener::accept`]. The address is that of the client, mostly unnamed; the user of the client is
    /// [`peer_cred`](UnixStream::peer_cred) of the stream.
    ///
    /// # Errors
    /// If another try cannot succeed.
    pub async fn accept(&mut self) -> io::Result<(CountedStream<UnixStream>, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// [`accept`](Self::accept) as a poll.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(CountedStream<UnixStream>, SocketAddr)>> {
        self.listener.poll_next(context, |stream, _unnamed| {
            let stream = std::os::unix::net::UnixStream::from(stream);
            let peer = stream.peer_addr().ok()?;
            Some((UnixStream::from_std(stream), peer.into()))
        })
    }

    /// As [`AsyncListener::stopped`].
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.listener.stopped()
    }

    /// Ends the run of the worker with an error that the server cannot return.
    #[cfg(feature = "axum")]
    pub(crate) fn fail(&self, error: io::Error) {
        self.listener.fail(error);
    }
}
