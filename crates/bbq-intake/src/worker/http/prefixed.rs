//! A connection whose first bytes were already read.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use super::open::Activity;
use super::pace::Pace;

/// The first bytes of an HTTP/2 client (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum bytes read before the protocol is known: enough for the head of most requests.
const FIRST_BYTES: usize = 1024;

/// A connection, and the bytes that were already read from it.
pub(super) struct Prefixed<S> {
    /// The bytes that were already read. Empty once the reader has taken all of them.
    front: Vec<u8>,
    /// 0 <= taken <= front.len()
    taken: usize,
    stream: S,
    /// Unless everything is read that comes.
    pace: Option<Pace>,
    /// What is told of each read.
    activity: Option<Rc<Activity>>,
}

impl<S: AsyncRead + Unpin> Prefixed<S> {
    /// Reads until it is known whether the client speaks HTTP/2. Returns the connection, and whether the client does.
    pub(super) async fn detect(mut stream: S) -> io::Result<(Prefixed<S>, bool)> {
        let mut first = [0; FIRST_BYTES];
        let mut read = 0;
        let is_http2 = loop {
            let more = stream.read(&mut first[read..]).await?;
            read += more;
            let known = read.min(PREFACE.len());
            if more == 0 || first[..known] != PREFACE[..known] {
                break false;
            }
            if known == PREFACE.len() {
                break true;
            }
        };
        Ok((
            Prefixed { front: first[..read].to_vec(), taken: 0, stream, pace: None, activity: None },
            is_http2,
        ))
    }

    /// Reads only when `pace` says so.
    pub(super) fn pace(&mut self, pace: Pace) {
        self.pace = Some(pace);
    }

    /// Tells `activity` of each read.
    pub(super) fn watch(&mut self, activity: Rc<Activity>) {
        self.activity = Some(activity);
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.front.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let waiting = &self.front[self.taken..];
        let now = waiting.len().min(buffer.remaining());
        buffer.put_slice(&waiting[..now]);
        self.taken += now;
        if self.taken == self.front.len() {
            self.front = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pace) = &mut self.pace {
            ready!(pace.poll_ready(context));
        }
        let before = buffer.filled().len();
        let read = self.poll_bytes(context, buffer);
        if let Some(pace) = &mut self.pace {
            pace.add(buffer.filled().len() - before, read.is_pending());
        }
        if buffer.filled().len() > before
            && let Some(activity) = &self.activity
        {
            activity.note_read();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
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
