//! The body of a response: all its bytes in one frame, and for gRPC the status after them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::HeaderMap;
use hyper::body::{Body, Bytes, Frame, SizeHint};

/// The body of a response.
#[derive(Debug)]
pub(super) struct ResponseBody {
    /// Never empty; `None` if there are no bytes, or once they are sent.
    bytes: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl ResponseBody {
    pub(super) fn new(bytes: Vec<u8>) -> ResponseBody {
        ResponseBody { bytes: (!bytes.is_empty()).then(|| bytes.into()), trailers: None }
    }

    pub(super) fn with_trailers(bytes: Vec<u8>, trailers: HeaderMap) -> ResponseBody {
        ResponseBody { trailers: Some(trailers), ..ResponseBody::new(bytes) }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.bytes.take() {
            Some(bytes) => Some(Frame::data(bytes)),
            None => self.trailers.take().map(Frame::trailers),
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}
