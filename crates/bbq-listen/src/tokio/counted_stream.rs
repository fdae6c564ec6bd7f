//! A TCP connection on tokio that counts as open until it is dropped.
//!
//! It adds nothing to reading and writing, which are tokio's.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::OpenCount;

/// A [`TcpStream`] that counts as open until it is dropped. It can be used as a `TcpStream`, from which it derefs.
///
/// The count is what `handoff=fewest` goes by, what [`Group::open_connections`](crate::Group::open_connections) returns, and what
/// the end of [`Group::run_tokio`](crate::Group::run_tokio) waits for.
#[derive(Debug)]
pub struct CountedStream {
    stream: TcpStream,
    open: OpenConnection,
}

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
pub struct OpenConnection {
    _count: OpenCount,
    /// The run of the group that waits for the connection at its end.
    _in_progress: Option<mpsc::Sender<Infallible>>,
}

impl OpenConnection {
    pub(crate) fn new(count: OpenCount, in_progress: Option<mpsc::Sender<Infallible>>) -> Self {
        Self { _count: count, _in_progress: in_progress }
    }
}

impl CountedStream {
    pub(crate) fn new(stream: TcpStream, open: OpenConnection) -> Self {
        Self { stream, open }
    }

    /// The stream itself, and what counts it as open: keep that for as long as the stream.
    ///
    /// For what takes a `TcpStream` by value, as [`TcpStream::into_split`] and [`TcpStream::into_std`].
    pub fn into_parts(self) -> (TcpStream, OpenConnection) {
        (self.stream, self.open)
    }
}

impl Deref for CountedStream {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl DerefMut for CountedStream {
    fn deref_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CountedStream {
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
