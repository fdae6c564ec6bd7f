//! A connection some of whose bytes were read before its reader began.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use super::open::Activity;
use super::pace::Pace;
use super::socket::Socket;

/// The first bytes of an HTTP/2 client (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum bytes read before the protocol is known: enough for the head of most requests.
const FIRST_BYTES: usize = 1024;

/// A connection, and the bytes that were already read from it.
pub(super) struct Prefixed<S> {
    /// Bytes that were read and not served yet. Empty once the reader has taken all of them.
    front: Vec<u8>,
    /// 0 <= taken <= front.len()
    taken: usize,
    stream: S,
    /// Unless everything is read that comes.
    pace: Option<Pace>,
    /// What is told of each read and write.
    activity: Option<Rc<Activity>>,
}

impl<S: Socket> Prefixed<S> {
    /// `front` was already read from the stream.
    pub(super) fn new(stream: S, front: Vec<u8>) -> Prefixed<S> {
        Prefixed { front, taken: 0, stream, pace: None, activity: None }
    }

    /// Reads until it is known whether the client speaks HTTP/2, and returns whether it does. Nothing is lost if this is dropped before
    /// it completes.
    pub(super) async fn detect(&mut self) -> io::Result<bool> {
        let mut buffer = [0; FIRST_BYTES];
        loop {
            let known = self.front.len().min(PREFACE.len());
            if self.front[..known] != PREFACE[..known] {
                return Ok(false);
            }
            if known == PREFACE.len() {
                return Ok(true);
            }
            let more = self.stream.read(&mut buffer).await?;
            if more == 0 {
                return Ok(false);
            }
            self.front.extend_from_slice(&buffer[..more]);
        }
    }

    /// The socket, and what was read from it and not taken by the reader: `held`, which the reader gives back, and then what it did not
    /// take.
    ///
    /// # Errors
    /// The stream does not move, or cannot leave its runtime.
    pub(super) fn into_socket(self, held: &[u8]) -> io::Result<(OwnedFd, Vec<u8>)> {
        Ok((self.stream.into_socket()?, [held, &self.front[self.taken..]].concat()))
    }

    /// Reads only when `pace` says so.
    pub(super) fn pace(&mut self, pace: Pace) {
        self.pace = Some(pace);
    }

    /// Tells `activity` of each read and write.
    pub(super) fn watch(&mut self, activity: Rc<Activity>) {
        self.activity = Some(activity);
    }

    fn note_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Some(activity) = &self.activity {
            activity.note_write(written.is_ready());
        }
        written
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
            (self.front, self.taken) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncRead for Prefixed<S> {
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

impl<S: Socket> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.activity.as_ref().is_some_and(|activity| activity.moves()) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
