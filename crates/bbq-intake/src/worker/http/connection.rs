//! An HTTP connection. The first bytes tell HTTP/1.1 from HTTP/2, with and without TLS.
//!
//! Invariant: what an HTTP/2 client can make the server hold is bounded by the limits below and by those of bodies.

use std::convert::Infallible;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bbq_tls::ServedTls;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use super::open::{Activity, Registered};
use super::overhead::{Overhead, STREAM_WINDOW_BYTES};
use super::pace::Pace;
use super::prefixed::Prefixed;
use super::response_body::ResponseBody;
use super::source::Source;
use crate::access::NewConnection;
use crate::worker::arrival::{Arrival, ArrivalOutcome};
use crate::worker::intake::Intake;
use crate::worker::stream::{TlsFailure, reason_of_error, reason_of_late};

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

/// Serves a connection until its client or the server ends it.
pub(crate) fn begin(arrival: Arrival<'_>) -> ArrivalOutcome {
    let peer = arrival.peer;
    let Arrival { intake, listener_index, accepted, address, .. } = arrival;
    let open = intake.connections.open.add(accepted.open, address);
    let source = Source { intake: Rc::clone(intake), listener_index, peer, overhead: Overhead::new() };
    let registered = Registered::new(&intake.connections.open_http, &intake.view, (listener_index, peer));
    spawn_local(async move {
        let intake = Rc::clone(&source.intake);
        intake.view.active_sessions.add();
        tokio::select! {
            biased;
            () = registered.activity.evicted() => {}
            served = serve_any(Rc::new(source), &registered.activity, accepted.stream) => if let Err(error) = served {
                intake.listeners[listener_index].report_closed(&error);
            }
        }
        intake.view.active_sessions.remove();
        drop(open);
    });
    ArrivalOutcome::Open
}

async fn serve_any(source: Rc<Source>, activity: &Rc<Activity>, stream: OwnedFd) -> io::Result<()> {
    if source.intake.listeners[source.listener_index].spec.address.transport().is_unix() {
        let stream = UnixStream::from(stream);
        stream.set_nonblocking(true)?;
        serve(source, activity, tokio::net::UnixStream::from_std(stream)?).await;
    } else {
        let stream = TcpStream::from(stream);
        stream.set_nonblocking(true)?;
        // Responses are small. Without this, the kernel holds a response back until the previous one is acknowledged (RFC 896).
        stream.set_nodelay(true)?;
        let stream = tokio::net::TcpStream::from_std(stream)?;
        match source.intake.listeners[source.listener_index].tls.clone() {
            None => serve(source, activity, stream).await,
            Some(served) => serve_tls(source, activity, stream, &served).await,
        }
    }
    Ok(())
}

/// Does the TLS handshake and serves the connection. The handshake may take as long as the head of a request.
async fn serve_tls(
    source: Rc<Source>,
    activity: &Rc<Activity>,
    stream: tokio::net::TcpStream,
    served: &ServedTls,
) {
    let intake = Rc::clone(&source.intake);
    let seconds = intake.buffers.limits.hello_timeout_seconds;
    let handshake = async {
        // A health check that connects and sends nothing is not a failure.
        if stream.peek(&mut [0]).await? == 0 {
            return Ok(None);
        }
        TlsAcceptor::from(served.config()).accept(stream).await.map(Some)
    };
    let handshake = tokio::select! {
        biased;
        () = intake.stopping.wait() => return,
        // The future is on the heap, because it is large and needed for a short time only.
        handshake = tokio::time::timeout(Duration::from_secs(seconds.into()), Box::pin(handshake)) => handshake,
    };
    let reason = match handshake {
        Ok(Ok(None)) => return,
        Ok(Ok(Some(stream))) => {
            served.counts.add_finished();
            return serve(source, activity, stream).await;
        }
        Ok(Err(error)) => reason_of_error(&error),
        Err(_late) => reason_of_late(seconds),
    };
    served.counts.add_failed();
    let failure = TlsFailure { is_handshake: true, reason };
    intake.listeners[source.listener_index].report_tls(source.peer, Some(failure));
}

async fn serve(
    source: Rc<Source>,
    activity: &Rc<Activity>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) {
    let intake = Rc::clone(&source.intake);
    let patience = Duration::from_secs(intake.buffers.limits.hello_timeout_seconds.into());
    let detected = tokio::select! {
        biased;
        () = intake.stopping.wait() => return,
        detected = tokio::time::timeout(patience, Prefixed::detect(stream)) => detected,
    };
    let Ok(Ok((mut stream, is_http2))) = detected else { return };
    let service = {
        let source = Rc::new((Rc::clone(&source), Rc::clone(activity)));
        service_fn(move |request| {
            let source = Rc::clone(&source);
            async move {
                let (source, activity) = &*source;
                let _open = activity.request();
                let mut response = source.respond(request, activity).await;
                if !is_http2 {
                    let (name, value) = KEEP_ALIVE;
                    response.headers_mut().insert(name, value);
                }
                source.overhead.add_answered();
                Ok::<_, Infallible>(response)
            }
        })
    };
    let is_small = intake.buffers.limits.has_little_memory;
    let window = |bytes: u32| if is_small { WINDOW_SMALL_BYTES } else { bytes };
    // An error concerns this client only, which sends unanswered requests again.
    if is_http2 {
        match source.listener().admit(source.peer) {
            NewConnection::Served => {}
            NewConnection::ServedWarily => source.overhead.limit(),
            NewConnection::TurnedAway => return intake.connections.turned_away.hold(&intake.stopping).await,
        }
        stream.pace(Pace::new(Rc::clone(&source)));
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
        let ends = tokio::select! {
            biased;
            done = &mut connection => return source.end(done.is_err()),
            () = intake.stopping.wait() => None,
            () = activity.idle_for(IDLE_MAX) => Some(END_PATIENCE),
        };
        // Answers the requests that have begun.
        connection.as_mut().graceful_shutdown();
        return finish(connection, ends).await;
    }
    serve_http1(stream, service, &intake, activity).await;
}

async fn serve_http1<S>(
    mut stream: Prefixed<impl AsyncRead + AsyncWrite + Unpin + 'static>,
    service: S,
    intake: &Intake,
    activity: &Rc<Activity>,
) where
    S: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>,
{
    let patience = Duration::from_secs(intake.buffers.limits.hello_timeout_seconds.into());
    let is_small = intake.buffers.limits.has_little_memory;
    stream.watch(Rc::clone(activity));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // It would count from the last response on; see `Activity::late_head`.
        .header_read_timeout(None)
        .max_buf_size(if is_small { READ_AHEAD_SMALL_BYTES_MAX } else { READ_AHEAD_BYTES_MAX })
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ends = tokio::select! {
        biased;
        _done = &mut connection => return,
        () = intake.stopping.wait() => None,
        () = activity.late_head(patience) => return,
        () = activity.idle_for(IDLE_HTTP1_MAX) => Some(END_PATIENCE),
    };
    // Answers the request that has begun.
    connection.as_mut().graceful_shutdown();
    finish(connection, ends).await;
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
