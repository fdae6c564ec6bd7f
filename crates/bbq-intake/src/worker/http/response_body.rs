//! The body of a response: its bytes, in one frame unless they are many, and for gRPC the status after them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::HeaderMap;
use hyper::body::{Body, Bytes, Frame, SizeHint};

use super::body::HeldBody;

/// Bytes of a frame at most: the next one is asked for when there is room for it, and until then the whole body counts as held.
const FRAME_BYTES_MAX: usize = 64 * 1024;

/// The body of a response.
pub(super) struct ResponseBody {
    /// Never empty; `None` if there are no bytes, or once they are sent.
    bytes: Option<Bytes>,
    trailers: Option<HeaderMap>,
    /// Counts the memory of a large body until its client has it.
    held: Option<Box<HeldBody>>,
}

impl ResponseBody {
    pub(super) fn new(bytes: Vec<u8>) -> ResponseBody {
        ResponseBody { bytes: (!bytes.is_empty()).then(|| bytes.into()), trailers: None, held: None }
    }

    /// A body whose memory is counted in `held`.
    pub(super) fn counted(bytes: Vec<u8>, held: HeldBody) -> ResponseBody {
        ResponseBody { held: Some(Box::new(held)), ..ResponseBody::new(bytes) }
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
            Some(mut bytes) => {
                if bytes.len() > FRAME_BYTES_MAX {
                    self.bytes = Some(bytes.split_off(FRAME_BYTES_MAX));
                } else {
                    self.held = None;
                }
                Some(Frame::data(bytes))
            }
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
