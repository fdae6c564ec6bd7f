//! Deadlines of requests, by their progress: an upload may take as long as its bytes move.
//!
//! All lanes upload at the same time and share the way to the server. So no upload has a deadline of its own size, which would fail all of
//! them on a slow way, and send the same bytes again without end. A request fails when the server takes no bytes of it for a while, or,
//! when all are on their way, does not respond.
//!
//! Bytes count as taken when hyper asks for the next ones: those before them are in the buffers of the operating system then.

use std::fmt::Display;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use object_store::PutPayload;
use object_store::client::{HttpError, HttpErrorKind, HttpRequestBody};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};

/// A request fails after this time without progress, and is sent again: longer than any server needs for a small request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A body is sent in slices of this size, whose progress is seen: at least one in [`REQUEST_TIMEOUT`], so also 16 lanes get on at 35 KB/s.
pub(super) const SLICE_BYTES: usize = 64 * 1024;
/// When the last slice was handed over, so many bytes may still be on their way: the largest send buffer that Linux gives a socket.
const HELD_BACK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The pace at which they move at least. Nobody sees their progress, so this is what a busy way leaves one of many lanes.
const HELD_BACK_BYTES_PER_SECOND_MIN: usize = 16 * 1024;

const _: () = assert!(SLICE_BYTES <= HELD_BACK_BYTES_MAX, "the response waits for the last slice");

/// How long requests wait for a server. The product has [`Patience::DEFAULT`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For the next bytes to be taken.
    pub(super) silence: Duration,
    pub(super) held_back_bytes_per_second: usize,
}

impl Patience {
    pub(super) const DEFAULT: Patience =
        Patience { silence: REQUEST_TIMEOUT, held_back_bytes_per_second: HELD_BACK_BYTES_PER_SECOND_MIN };

    /// How long the response to a body of so many bytes may take, from when the last of them was handed over.
    pub(super) fn response(&self, body_bytes: usize) -> Duration {
        let held_back = body_bytes.min(HELD_BACK_BYTES_MAX);
        self.silence + Duration::from_secs((held_back / self.held_back_bytes_per_second) as u64)
    }

    /// Runs a request. An error says what did not come in time.
    async fn run<T>(&self, mut sent: Sent, request: impl Future<Output = T>) -> Result<T, io::Error> {
        let mut request = pin!(request);
        loop {
            let is_sent = *sent.left.borrow_and_update() == 0;
            let patience = if is_sent { self.response(sent.bytes) } else { self.silence };
            // What has happened comes before the deadline: a machine that is busy may see both at the same time.
            tokio::select! {
                biased;
                response = &mut request => return Ok(response),
                // The body has gone when it is sent, or with the connection, of which the request knows.
                Ok(()) = sent.left.changed() => {}
                () = sleep(patience) => {
                    let seconds = patience.as_secs();
                    return Err(late(&match is_sent {
                        true => format!("the server did not respond within {seconds} s"),
                        false => format!("the server took no more of the object for {seconds} s"),
                    }));
                }
            }
        }
    }
}

fn late(text: &dyn Display) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, text.to_string())
}

fn timed_out(error: io::Error) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, error)
}

/// A body in slices that share its memory.
pub(super) fn sliced(bytes: Arc<[u8]>) -> PutPayload {
    let bytes = Bytes::from_owner(bytes);
    let begins = (0..bytes.len()).step_by(SLICE_BYTES);
    begins.map(|begin| bytes.slice(begin..bytes.len().min(begin + SLICE_BYTES))).collect()
}

/// When the uploads of a sink have made progress, for the sink to know how long it may wait for one to end.
#[derive(Debug)]
pub(super) struct Uploads(Mutex<Times>);

#[derive(Clone, Copy, Debug)]
struct Times {
    since: Instant,
    moved: Instant,
}

impl Uploads {
    pub(super) fn new() -> Uploads {
        let now = Instant::now();
        Uploads(Mutex::new(Times { since: now, moved: now }))
    }

    /// Begins to measure: an object is on its way, and none has arrived yet.
    pub(super) fn begin(&self) {
        let now = Instant::now();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Times { since: now, moved: now };
    }

    /// How long after [`Uploads::begin`] a server took bytes for the last time.
    pub(super) fn lasted(&self) -> Duration {
        let Times { since, moved } = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moved.saturating_duration_since(since)
    }

    pub(super) fn note(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).moved = Instant::now();
    }
}

/// What is known of a body that is being sent.
struct Sent {
    bytes: usize,
    /// Bytes that were not handed over yet.
    left: watch::Receiver<usize>,
}

/// The body of a request, which notes its progress.
pub(super) struct Upload {
    body: HttpRequestBody,
    left: watch::Sender<usize>,
    uploads: Arc<Uploads>,
}

impl Upload {
    fn new(body: HttpRequestBody, uploads: Arc<Uploads>) -> (Upload, Sent) {
        let bytes = body.content_length();
        let (sender, left) = watch::channel(bytes);
        (Upload { body, left: sender, uploads }, Sent { bytes, left })
    }

    /// Sends a request by `send`, as long as it makes progress.
    ///
    /// # Errors
    /// It did not in time. The outcome of `send` is inside.
    pub(super) async fn send<T, F: Future<Output = T>>(
        body: HttpRequestBody,
        uploads: Arc<Uploads>,
        patience: Patience,
        send: impl FnOnce(Upload) -> F,
    ) -> Result<T, HttpError> {
        let (upload, sent) = Upload::new(body, uploads);
        patience.run(sent, send(upload)).await.map_err(timed_out)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(bytes) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.left.send_modify(|left| *left = left.saturating_sub(bytes.len()));
            self.uploads.note();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response: short texts, and the ends of objects. It has to come within the time of a request.
pub(super) struct Download {
    body: Incoming,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl Download {
    pub(super) fn new(body: Incoming, patience: Patience) -> Download {
        Download { body, patience: patience.silence, deadline: Box::pin(sleep(patience.silence)) }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let failed = |error| HttpError::new(HttpErrorKind::Interrupted, error);
            return Poll::Ready(frame.map(|frame| frame.map_err(failed)));
        }
        ready!(self.deadline.as_mut().poll(context));
        let text = format!("the response did not end within {} s", self.patience.as_secs());
        Poll::Ready(Some(Err(timed_out(late(&text)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};

    use tokio::runtime::Builder;

    use super::*;

    /// Four slices held back take a second longer.
    const PATIENCE: Patience =
        Patience { silence: Duration::from_millis(400), held_back_bytes_per_second: 4 * SLICE_BYTES };
    const SOON: Duration = Duration::from_millis(50);

    /// Sends a body to a server that takes so many slices of it, one after each pause, and responds after another time, if ever.
    fn send(slices: usize, taken: usize, response: Option<Duration>) -> (Result<(), HttpError>, Duration) {
        let uploads = Arc::new(Uploads::new());
        let sent = Upload::send(body(slices), Arc::clone(&uploads), PATIENCE, |mut upload| async move {
            for _ in 0..taken {
                sleep(SOON).await;
                let frame = poll_fn(|context| Pin::new(&mut upload).poll_frame(context)).await;
                assert_eq!(frame.unwrap().unwrap().into_data().unwrap().len(), SLICE_BYTES);
            }
            match response {
                Some(after) => sleep(after).await,
                None => pending().await,
            }
        });
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        (runtime.block_on(sent), uploads.lasted())
    }

    fn body(slices: usize) -> HttpRequestBody {
        sliced(vec![7; slices * SLICE_BYTES].into()).into()
    }

    #[test]
    fn an_upload_that_moves_outlives_every_deadline_of_its_size() {
        let (slices, begin) = (40, Instant::now());
        let (sent, lasted) = send(slices, slices, Some(SOON));
        sent.unwrap();
        assert!(begin.elapsed() >= 40 * SOON && lasted >= 40 * SOON, "{lasted:?}");
    }

    #[test]
    fn an_upload_that_stands_still_fails() {
        let (sent, lasted) = send(40, 4, None);
        let error = sent.unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::Timeout);
        assert!(error.to_string().contains("took no more of the object"), "{error}");
        assert!(lasted >= 4 * SOON, "{lasted:?}");
    }

    #[test]
    fn a_response_has_time_for_the_bytes_before_it() {
        let later = PATIENCE.silence + Duration::from_millis(300);
        send(4, 4, Some(later)).0.unwrap();
        for (slices, begin) in [(4, Instant::now()), (0, Instant::now())] {
            let error = send(slices, slices, None).0.unwrap_err();
            assert_eq!(error.kind(), HttpErrorKind::Timeout);
            assert!(error.to_string().contains("did not respond within"), "{error}");
            assert!(begin.elapsed() >= PATIENCE.response(slices * SLICE_BYTES));
        }
        assert_eq!(Patience::DEFAULT.response(0), REQUEST_TIMEOUT);
        assert_eq!(Patience::DEFAULT.response(usize::MAX), REQUEST_TIMEOUT + Duration::from_secs(256));
    }

    #[test]
    fn slices_share_the_memory_of_the_object() {
        let bytes: Arc<[u8]> = (0..=255).cycle().take(SLICE_BYTES * 2 + 1).collect();
        let payload = sliced(Arc::clone(&bytes));
        let mut begin = 0;
        for slice in &payload {
            assert!(std::ptr::eq(slice.as_ptr(), bytes[begin..].as_ptr()));
            begin += slice.len();
        }
        assert_eq!((begin, payload.iter().count()), (bytes.len(), 3));
        assert_eq!(sliced(Arc::default()).iter().count(), 0);
    }
}
