//! Accepts the connections of a worker on a tokio runtime, of tcp or of a unix socket: for servers whose address is configured.
//!
//! It is an `AsyncListener`, whose connections are one type.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::tokio::counted_stream::CountedStream;
use crate::{AsyncListener, PeerAddress, Transport, WorkerListener};

/// Accepts the connections of one worker, whatever their transport: [`AsyncListener::into_any`].
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tokio::io::AsyncWriteExt;
///
/// // Or `127.0.0.1:7701`, or `unix://@server`.
/// let group = bbq_listen::Group::at("unix:///run/server.sock")?.open()?;
/// group.run_tokio(async |listener| {
///     let mut listener = listener.into_any();
///     loop {
///         let (mut stream, peer) = listener.accept().await?;
///         stream.write_all(format!("hello {peer}\n").as_bytes()).await?;
///     }
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncAnyListener {
    listener: AsyncListener,
}

/// A connection of tcp or of a unix socket.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::AnyStream;
///
/// # let group = bbq_listen::Group::at("unix:///run/server.sock")?.open()?;
/// # group.run_tokio(async |listener| {
/// # let mut listener = listener.into_any();
/// let (stream, _peer) = listener.accept().await?;
/// match &*stream {
///     AnyStream::Tcp(stream) => println!("from {}", stream.peer_addr()?),
///     AnyStream::Unix(stream) => println!("from user {}", stream.peer_cred()?.uid()),
///     _ => {}
/// }
/// # Ok(())
/// # })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyStream {
    /// Of tcp.
    Tcp(TcpStream),
    /// Of a unix socket.
    Unix(UnixStream),
}

impl AsyncListener {
    /// A listener that serves tcp, and unix sockets with a path or an abstract name, with connections of one type.
    #[must_use]
    pub fn into_any(self) -> AsyncAnyListener {
        AsyncAnyListener { listener: self }
    }
}

impl AsyncAnyListener {
    /// The worker it accepts for.
    pub fn worker_listener(&self) -> &WorkerListener {
        self.listener.worker_listener()
    }

    /// As [`AsyncListener::accept`]. The address of a client of a unix socket is unknown; its user is
    /// [`peer_cred`](UnixStream::peer_cred) of the stream.
    ///
    /// # Errors
    /// If another try cannot succeed.
    pub async fn accept(&mut self) -> io::Result<(CountedStream<AnyStream>, PeerAddress)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// [`accept`](Self::accept) as a poll.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(CountedStream<AnyStream>, PeerAddress)>> {
        let is_tcp = self.listener.transport() == Transport::Tcp;
        self.listener.poll_next(context, |stream, peer| {
            if !is_tcp {
                return Some((UnixStream::from_std(stream.into()).map(AnyStream::Unix), PeerAddress(None)));
            }
            let stream = std::net::TcpStream::from(stream);
            let peer = peer.0.or_else(|| stream.peer_addr().ok())?;
            Some((TcpStream::from_std(stream).map(AnyStream::Tcp), PeerAddress(Some(peer))))
        })
    }

    /// As [`AsyncListener::stopped`].
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.listener.stopped()
    }

    /// As [`AsyncListener::stopping`].
    pub fn stopping(&self) -> impl Fn() -> bool + Clone + Send + Sync + use<> {
        self.listener.stopping()
    }

    /// Ends the run of the worker with an error that the server cannot return.
    #[cfg(feature = "axum")]
    pub(crate) fn fail(&self, error: io::Error) {
        self.listener.fail(error);
    }
}

/// Calls a method of the stream that it is.
macro_rules! of_stream {
    ($stream:expr, $method:ident($($argument:expr),*)) => {
        match $stream.get_mut() {
            AnyStream::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            AnyStream::Unix(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for AnyStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_stream!(self, poll_read(context, buffer))
    }
}

impl AsyncWrite for AnyStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_stream!(self, poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_stream!(self, poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        // Both do.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_stream!(self, poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_stream!(self, poll_shutdown(context))
    }
}
