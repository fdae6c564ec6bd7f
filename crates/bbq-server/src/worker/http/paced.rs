//! An HTTP/2 connection from which nothing is read while it has sent too much that is no message, and which lets others have
//! their turn.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::source::Source;

/// What is read before the worker's other tasks have their turn, in bytes: two of the largest frames that clients send unasked.
const TURN_BYTES: usize = 32 * 1024;

pub(super) struct Paced<S> {
    stream: S,
    source: Rc<Source>,
    /// While nothing may be read.
    pause: Option<Pin<Box<Sleep>>>,
    /// Read in this turn.
    turn: usize,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, source: Rc<Source>) -> Paced<S> {
        Paced { stream, source, pause: None, turn: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        if let Some(wait) = self.source.overhead.wait() {
            self.source.report_overhead();
            let pause = self.pause.insert(Box::pin(sleep(wait)));
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        if self.turn >= TURN_BYTES {
            self.turn = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        self.source.overhead.add_read(bytes);
        // What comes after a wait for the socket is in a turn of its own.
        self.turn = if read.is_ready() { self.turn + bytes } else { 0 };
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
