//! An HTTP connection. The first bytes tell HTTP/1.1 from HTTP/2, with and without TLS.
//!
//! When the server pauses, a plain connection of HTTP/1.1 moves to the next worker between two requests, and in the head of one.
//!
//! Invariant: what an HTTP/2 client can make the server hold is bounded by the limits below and by those of bodies.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bbq_tls::ServedTls;
use bbq_wire::Peer;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_rustls::TlsAcceptor;

use super::open::{Activity, Registered};
use super::overhead::{Overhead, STREAM_WINDOW_BYTES};
use super::pace::Pace;
use super::prefixed::Prefixed;
use super::response_body::ResponseBody;
use super::socket::Socket;
use super::source::Source;
use crate::access::{AddressShare, NewConnection};
use crate::worker::arrival::{Arrival, ArrivalOutcome};
use crate::worker::connections::open::OpenConnection;
use crate::worker::intake::Intake;
use crate::worker::paused::{PausedConnection, Unfinished};
use crate::worker::stream::{Stream, TlsFailure, reason_of_error, reason_of_late};

/// Maximum requests that an HTTP/2 connection may have open at a time.
const STREAMS_MAX: u32 = 64;
/// Maximum bytes of all bodies that a client may send before the server takes them (of one: `STREAM_WINDOW_BYTES`). The server takes
/// them at once, unless the worker has other work.
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// Maximum size of the head of an HTTP/2 request, however many CONTINUATION frames it has.
const HEAD_BYTES_MAX: u32 = 16 * 1024;
/// Maximum requests that were cancelled before they were served, by the client or because of its errors: with more, the
/// connection ends (CVE-2023-44487).
const RESETS_MAX: usize = 20;
/// Maximum bytes of a response that wait until the client takes them.
const SEND_BYTES_MAX: usize = 16 * 1024;

/// How long a connection of HTTP/2 may be without a request, and one whose client does not read a response. Exporters of
/// OpenTelemetry send every few seconds to a minute, and a new connection costs them a handshake.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// The same of HTTP/1.1, and what a response says of it. A proxy keeps idle connections for up to 60 s by default (nginx, load balancers
/// of clouds); if the server ended them first, a request on its way would be lost.
const IDLE_HTTP1_MAX: Duration = Duration::from_secs(75);
const KEEP_ALIVE: (HeaderName, HeaderValue) =
    (HeaderName::from_static("keep-alive"), HeaderValue::from_static("timeout=75"));
const CLOSE: (HeaderName, HeaderValue) = (hyper::header::CONNECTION, HeaderValue::from_static("close"));
/// How long a client has to end a connection that the server wants to end, and to read what is left.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum bytes that HTTP/1.1 reads ahead, so also the longest head of a request.
const READ_AHEAD_BYTES_MAX: usize = 64 * 1024;
/// The same for a server with little memory: a head has seldom more than 8 KiB.
const READ_AHEAD_SMALL_BYTES_MAX: usize = 16 * 1024;
/// [`CONNECTION_WINDOW_BYTES`] and [`STREAM_WINDOW_BYTES`] for a server with little memory: the initial window of RFC 9113, 6.9.2.
const WINDOW_SMALL_BYTES: u32 = 64 * 1024 - 1;

/// Runs the requests of an HTTP/2 connection on its worker.
#[derive(Clone)]
struct OnWorker;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for OnWorker {
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

/// A connection while it is served.
struct Serving {
    source: Rc<Source>,
    activity: Rc<Activity>,
    /// When it was accepted, if the stop had begun before.
    accepted_in_stop: Option<Instant>,
}

/// A connection that the next worker goes on with.
struct Moved {
    socket: OwnedFd,
    /// What was read of it and is not served.
    held: Vec<u8>,
    /// As in [`Unfinished::Request`].
    expects_tls: bool,
}

/// What is to be served.
enum Arrived {
    /// Just accepted.
    New(OwnedFd),
    /// Another worker served it before.
    Moved(Moved),
}

impl Serving {
    /// Completes when the server ends the connection, and returns whether it can move to the next worker.
    async fn end(&self, moves: bool) -> bool {
        let stopping = &self.source.intake.stopping;
        stopping.wait().await;
        if moves && stopping.is_kept(self.source.listener_index) {
            return true;
        }
        self.grace().await;
        false
    }

    /// The same of HTTP/2. Behind a GOAWAY, requests that are on their way are answered (RFC 9113, 6.8), and with the next the client
    /// connects again. A client that has sent none may take that for a failure.
    async fn end_of_http2(&self) {
        let stopping = &self.source.intake.stopping;
        stopping.wait().await;
        if !(self.activity.has_had_request() && stopping.is_kept(self.source.listener_index)) {
            self.grace().await;
        }
    }

    /// The time for a request that is on its way when the stop begins.
    async fn grace(&self) {
        let stopping = &self.source.intake.stopping;
        let of_accepted = self.accepted_in_stop.and_then(|accepted| stopping.grace_end_of(accepted));
        if let Some(end) = of_accepted.or_else(|| stopping.grace_end()) {
            sleep_until(end).await;
        }
    }
}

/// Serves a connection until its client or the server ends it.
pub(crate) fn begin(arrival: Arrival<'_>) -> ArrivalOutcome {
    let Arrival { intake, listener_index, accepted, peer, address, .. } = arrival;
    let open = intake.connections.open.add(accepted.open, address);
    spawn(intake, (listener_index, peer), open, Arrived::New(accepted.stream));
    ArrivalOutcome::Open
}

/// Goes on with a connection that another worker served before.
pub(crate) fn resume(
    intake: &Rc<Intake>,
    place: (usize, Peer),
    stream: Stream,
    (held, expects_tls): (Vec<u8>, bool),
    address: Option<Box<AddressShare>>,
) {
    let open = intake.connections.open.add(None, address);
    let moved = Moved { socket: stream.into_parts().0, held, expects_tls };
    spawn(intake, place, open, Arrived::Moved(moved));
}

fn spawn(intake: &Rc<Intake>, (listener_index, peer): (usize, Peer), open: OpenConnection, arrived: Arrived) {
    let source = Source { intake: Rc::clone(intake), listener_index, peer, overhead: Overhead::new() };
    let registered = Registered::new(&intake.connections.open_http, &intake.view, (listener_index, peer));
    let serving = Serving {
        source: Rc::new(source),
        activity: Rc::clone(&registered.activity),
        accepted_in_stop: intake.stopping.has_begun().then(Instant::now),
    };
    let intake = Rc::clone(intake);
    spawn_local(async move {
        intake.view.active_sessions.add();
        let served = tokio::select! {
            biased;
            () = registered.activity.evicted() => Ok(None),
            served = serve_any(serving, arrived) => served,
        };
        intake.view.active_sessions.remove();
        match served {
            Ok(None) => {}
            Ok(Some(Moved { socket, held, expects_tls })) => {
                intake.connections.paused.borrow_mut().push(PausedConnection {
                    worker: intake.worker,
                    listener_index,
                    stream: Stream::plain(socket),
                    unfinished: Unfinished::Request { held, expects_tls },
                    peer,
                    // Its address keeps its share: other workers may accept until they, too, have heard of the pause.
                    address: open.into_parts().0.into_address(),
                })
            }
            Err(error) => intake.listeners[listener_index].report_closed(&error),
        }
    });
}

/// Returns the connection if the next worker goes on with it.
async fn serve_any(serving: Serving, arrived: Arrived) -> io::Result<Option<Moved>> {
    let listener = serving.source.listener();
    let (socket, held, expects_tls) = match arrived {
        Arrived::New(socket) => (socket, None, listener.tls.is_some()),
        Arrived::Moved(Moved { socket, held, expects_tls }) => (socket, Some(held), expects_tls),
    };
    if listener.spec.address.transport().is_unix() {
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(true)?;
        return serve(serving, tokio::net::UnixStream::from_std(stream)?, held).await;
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    // Responses are small. Without this, the kernel holds a response back until the previous one is acknowledged (RFC 896).
    stream.set_nodelay(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    match listener.tls.clone() {
        Some(served) if expects_tls => serve_tls(serving, stream, &served).await,
        // The listener has no TLS any more.
        None if expects_tls => Ok(None),
        _ => serve(serving, stream, held).await,
    }
}

/// Does the TLS handshake and serves the connection. The handshake may take as long as the head of a request.
async fn serve_tls(
    serving: Serving,
    stream: tokio::net::TcpStream,
    served: &ServedTls,
) -> io::Result<Option<Moved>> {
    let seconds = serving.source.intake.buffers.limits.hello_timeout_seconds;
    let mut late = pin!(sleep(Duration::from_secs(seconds.into())));
    let mut first = [0];
    let begun = tokio::select! {
        biased;
        peeked = stream.peek(&mut first) => peeked.map_err(|error| reason_of_error(&error)),
        () = &mut late => Err(reason_of_late(seconds)),
        moves = serving.end(true) => return match moves {
            true => Ok(Some(Moved { socket: stream.into_socket()?, held: Vec::new(), expects_tls: true })),
            false => Ok(None),
        },
    };
    let reason = match begun {
        // A health check that connects and sends nothing is not a failure.
        Ok(0) => return Ok(None),
        Ok(_) => {
            // The future is on the heap, because it is large and needed for a short time only.
            let handshake = Box::pin(TlsAcceptor::from(served.config()).accept(stream));
            tokio::select! {
                biased;
                handshake = handshake => match handshake {
                    Ok(stream) => {
                        served.counts.add_finished();
                        return serve(serving, stream, None).await;
                    }
                    Err(error) => reason_of_error(&error),
                },
                () = late => reason_of_late(seconds),
                _ = serving.end(false) => return Ok(None),
            }
        }
        Err(reason) => reason,
    };
    served.counts.add_failed();
    let failure = TlsFailure { is_handshake: true, reason };
    serving.source.listener().report_tls(serving.source.peer, Some(failure));
    Ok(None)
}

async fn serve<S: Socket>(serving: Serving, stream: S, held: Option<Vec<u8>>) -> io::Result<Option<Moved>> {
    let Serving { source, activity, .. } = &serving;
    let patience = Duration::from_secs(source.intake.buffers.limits.hello_timeout_seconds.into());
    // A connection that moved here may be between two requests.
    let first_patience = if held.is_some() { IDLE_HTTP1_MAX } else { patience };
    let mut stream = Prefixed::new(stream, held.unwrap_or_default());
    let is_http2 = tokio::select! {
        biased;
        detected = tokio::time::timeout(first_patience, stream.detect()) => match detected {
            Ok(Ok(is_http2)) => is_http2,
            // Nobody waits for an answer.
            Ok(Err(_)) | Err(_) => return Ok(None),
        },
        moves = serving.end(S::MOVES) => return match moves {
            true => moved(stream, &[]),
            false => Ok(None),
        },
    };
    let shared = Rc::new((Rc::clone(source), Rc::clone(activity)));
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = Rc::clone(&shared);
        async move {
            let (source, activity) = &*shared;
            let _open = activity.request();
            let version = request.version();
            let mut response = source.respond(request, activity).await;
            activity.note_response(response.status());
            let is_last = source.intake.stopping.has_begun();
            if !is_http2 {
                let (name, value) = if is_last { CLOSE } else { KEEP_ALIVE };
                response.headers_mut().insert(name, value);
            }
            if is_last && version == Version::HTTP_10 {
                // To a response of HTTP/1.1, hyper would add `Connection: keep-alive` for this client.
                *response.version_mut() = version;
            }
            source.overhead.add_answered();
            Ok::<_, Infallible>(response)
        }
    });
    if !is_http2 {
        return serve_http1(stream, service, &serving).await;
    }
    serve_http2(stream, service, &serving).await;
    Ok(None)
}

async fn serve_http2<S, R>(mut stream: Prefixed<S>, service: R, serving: &Serving)
where
    S: Socket,
    R: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible> + 'static,
    R::Future: 'static,
{
    let Serving { source, activity, .. } = serving;
    let intake = &source.intake;
    let limits = &intake.buffers.limits;
    match source.listener().admit(source.peer) {
        NewConnection::Served => {}
        NewConnection::ServedWarily => source.overhead.limit(),
        NewConnection::TurnedAway => return intake.connections.turned_away.hold(&intake.stopping).await,
    }
    stream.pace(Pace::new(Rc::clone(source)));
    let window = |bytes: u32| if limits.has_little_memory { WINDOW_SMALL_BYTES } else { bytes };
    let patience = Duration::from_secs(limits.hello_timeout_seconds.into());
    let connection = http2::Builder::new(OnWorker)
        .timer(TokioTimer::new())
        // Ends connections whose client is gone.
        .keep_alive_interval(patience)
        .keep_alive_timeout(patience)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(window(STREAM_WINDOW_BYTES))
        .initial_connection_window_size(window(CONNECTION_WINDOW_BYTES))
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .max_send_buf_size(SEND_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // An error concerns this client only, which sends unanswered requests again.
    let patience = tokio::select! {
        biased;
        done = &mut connection => return source.end(done.is_err()),
        () = serving.end_of_http2() => None,
        () = activity.idle_for(IDLE_MAX) => Some(END_PATIENCE),
    };
    // Answers the requests that have begun.
    connection.as_mut().graceful_shutdown();
    finish(connection, patience).await;
}

async fn serve_http1<S, R>(
    mut stream: Prefixed<S>,
    service: R,
    serving: &Serving,
) -> io::Result<Option<Moved>>
where
    S: Socket,
    R: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible> + Unpin,
{
    let Serving { source, activity, .. } = serving;
    let limits = &source.intake.buffers.limits;
    let patience = Duration::from_secs(limits.hello_timeout_seconds.into());
    stream.watch(Rc::clone(activity));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // It would count from the last response on; see `Activity::late_head`.
        .header_read_timeout(None)
        .max_buf_size(if limits.has_little_memory {
            READ_AHEAD_SMALL_BYTES_MAX
        } else {
            READ_AHEAD_BYTES_MAX
        })
        .serve_connection(TokioIo::new(stream), service);
    let (patience, moves) = tokio::select! {
        biased;
        _done = &mut connection => return Ok(None),
        moves = serving.end(S::MOVES) => (None, moves),
        () = activity.late_head(patience) => return Ok(None),
        () = activity.idle_for(IDLE_HTTP1_MAX) => (Some(END_PATIENCE), false),
    };
    if moves {
        // hyper has read a part of the head of a first request at most, and holds it still.
        let is_free = activity.is_between_requests()
            && (!activity.has_had_request() || is_let_go(&mut connection, activity).await);
        if is_free {
            let parts = connection.into_parts();
            return moved(parts.io.into_inner(), &parts.read_buf);
        }
        tokio::select! {
            biased;
            _done = &mut connection => return Ok(None),
            () = serving.grace() => {}
        }
    }
    // Answers the request that has begun.
    Pin::new(&mut connection).graceful_shutdown();
    finish(connection, patience).await;
    Ok(None)
}

/// Takes a connection out of this worker, with what its reader gives back.
fn moved(stream: Prefixed<impl Socket>, held: &[u8]) -> io::Result<Option<Moved>> {
    let (socket, held) = stream.into_socket(held)?;
    Ok(Some(Moved { socket, held, expects_tls: false }))
}

/// Whether hyper ends a connection at once, without shutting it down: it does so between two requests.
async fn is_let_go<S, R>(
    connection: &mut http1::Connection<TokioIo<Prefixed<S>>, R>,
    activity: &Activity,
) -> bool
where
    S: Socket,
    R: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible> + Unpin,
{
    activity.set_moves(true);
    Pin::new(&mut *connection).graceful_shutdown();
    let ended = poll_fn(|context| Poll::Ready(Pin::new(&mut *connection).poll(context))).await;
    let is_let_go = matches!(ended, Poll::Ready(Ok(())));
    activity.set_moves(is_let_go);
    is_let_go
}

/// Waits for the end of a connection, for so long at most. A stop has a limit of its own.
async fn finish<T>(connection: impl Future<Output = T>, patience: Option<Duration>) {
    match patience {
        None => drop(connection.await),
        Some(patience) => drop(tokio::time::timeout(patience, connection).await),
    }
}

/// What a client is told whose address has too many connections.
pub(crate) fn too_many(why: &str) -> Vec<u8> {
    let body = format!("{}\n", serde_json::json!({ "error": why }));
    let length = body.len();
    let head = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}
