//! A connection on tokio that counts as open until it is dropped.
//!
//! It adds nothing to reading and writing, which are tokio's.

use std::io::{self, IoSlice};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::OpenCount;
use crate::tokio::ending::InProgress;

/// A [`TcpStream`], or a [`UnixStream`](tokio::net::UnixStream), that counts as open until it is dropped. It can be used as the
/// stream, to which it derefs.
///
/// The count is what `handoff=fewest` goes by, what [`Group::open_connections`](crate::Group::open_connections) returns, and what
/// the end of [`Group::run_tokio`](crate::Group::run_tokio) waits for.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let group = bbq_listen::Group::at("127.0.0.1:7701")?.open()?;
/// # group.run_tokio(async |mut listener| loop {
/// let (stream, _peer) = listener.accept().await?;
/// stream.set_nodelay(true)?;
/// // What takes the stream by value gets it so. The connection counts as open until `open` is dropped.
/// let (stream, open) = stream.into_parts();
/// tokio::spawn(async move {
///     let (mut input, mut output) = stream.into_split();
///     let copied = tokio::io::copy(&mut input, &mut output).await;
///     drop(open);
///     copied
/// });
/// # })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CountedStream<Stream = TcpStream> {
    stream: Stream,
    open: OpenConnection,
}

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
pub struct OpenConnection {
    _count: OpenCount,
    /// The run of the group that waits for the connection at its end.
    _in_progress: Option<InProgress>,
}

impl OpenConnection {
    pub(crate) fn new(count: OpenCount, in_progress: Option<InProgress>) -> Self {
        Self { _count: count, _in_progress: in_progress }
    }
}

impl<Stream> CountedStream<Stream> {
    pub(crate) fn new(stream: Stream, open: OpenConnection) -> Self {
        Self { stream, open }
    }

    /// The stream itself, and what counts it as open: keep that for as long as the stream.
    ///
    /// For what takes a stream by value, as [`TcpStream::into_split`] and [`TcpStream::into_std`].
    pub fn into_parts(self) -> (Stream, OpenConnection) {
        (self.stream, self.open)
    }
}

impl<Stream> Deref for CountedStream<Stream> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl<Stream> DerefMut for CountedStream<Stream> {
    fn deref_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

impl<Stream: AsyncRead + Unpin> AsyncRead for CountedStream<Stream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for CountedStream<Stream> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
