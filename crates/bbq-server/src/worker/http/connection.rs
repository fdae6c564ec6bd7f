//! A connection over which requests come, one after the other.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bbq_wire::Peer;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use super::request::Source;
use crate::tls::ServedTls;
use crate::worker::accept::open::OpenConnection;
use crate::worker::intake::Intake;
use crate::worker::stream::{TlsFailure, reason_of_error, reason_of_late};

/// Serves a connection until its client or the server ends it. `open` counts it meanwhile.
pub(crate) fn begin(
    intake: &Rc<Intake>,
    listener_index: usize,
    stream: OwnedFd,
    peer: Peer,
    open: OpenConnection,
) {
    let source = Source { intake: Rc::clone(intake), listener_index, peer };
    spawn_local(async move {
        let intake = Rc::clone(&source.intake);
        intake.view.active_sessions.add();
        if let Err(error) = serve_any(source, stream).await {
            intake.listeners[listener_index].report_closed(&error);
        }
        intake.view.active_sessions.remove();
        drop(open);
    });
}

async fn serve_any(source: Source, stream: OwnedFd) -> io::Result<()> {
    if source.intake.listeners[source.listener_index].spec.address.transport().is_unix() {
        let stream = UnixStream::from(stream);
        stream.set_nonblocking(true)?;
        serve(source, tokio::net::UnixStream::from_std(stream)?).await;
    } else {
        let stream = TcpStream::from(stream);
        stream.set_nonblocking(true)?;
        // A response is small, and is not to wait for the acknowledgement of the one before it (RFC 896).
        stream.set_nodelay(true)?;
        let stream = tokio::net::TcpStream::from_std(stream)?;
        match source.intake.listeners[source.listener_index].tls.clone() {
            None => serve(source, stream).await,
            Some(served) => serve_tls(source, stream, &served).await,
        }
    }
    Ok(())
}

/// Serves a connection after its handshake, for which there is as much time as for the head of a request.
async fn serve_tls(source: Source, stream: tokio::net::TcpStream, served: &ServedTls) {
    let intake = Rc::clone(&source.intake);
    let seconds = intake.limits.hello_timeout_seconds;
    let handshake = async {
        // Who only looks whether somebody listens is no failure.
        if stream.peek(&mut [0]).await? == 0 {
            return Ok(None);
        }
        TlsAcceptor::from(served.config()).accept(stream).await.map(Some)
    };
    let handshake = tokio::select! {
        biased;
        () = intake.stopping.wait() => return,
        // On the heap, as it is large and soon over.
        handshake = tokio::time::timeout(Duration::from_secs(seconds.into()), Box::pin(handshake)) => handshake,
    };
    let reason = match handshake {
        Ok(Ok(None)) => return,
        Ok(Ok(Some(stream))) => {
            served.counts.add_finished();
            return serve(source, stream).await;
        }
        Ok(Err(error)) => reason_of_error(&error),
        Err(_late) => reason_of_late(seconds),
    };
    served.counts.add_failed();
    let failure = TlsFailure { is_handshake: true, reason };
    intake.listeners[source.listener_index].report_tls(source.peer, Some(failure));
}

async fn serve(source: Source, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let intake = Rc::clone(&source.intake);
    let source = Rc::new(source);
    let service = service_fn(move |request| {
        let source = Rc::clone(&source);
        async move { Ok::<_, std::convert::Infallible>(source.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Also the time for which a connection may be idle between two requests.
        .header_read_timeout(Duration::from_secs(intake.limits.hello_timeout_seconds.into()))
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // An error of the client concerns only the client: what it was not answered it sends again.
    let _done = tokio::select! {
        biased;
        done = &mut connection => done,
        () = intake.stopping.wait() => {
            // The request that has begun is answered.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}
