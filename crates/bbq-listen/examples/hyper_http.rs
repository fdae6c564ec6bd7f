//! hyper on a group, without a framework: HTTP/1.1 that answers `GET /` and gives a body back at `POST /echo`.
//!
//!     cargo run --release -p bbq-listen --example hyper_http -- 127.0.0.1:8080
//!     curl --data said http://127.0.0.1:8080/echo
//!
//! A stop closes idle connections. Requests that have begun get their answers, and so do those that clients send within the grace
//! after which `stopped` completes.

use std::convert::Infallible;
use std::io;
use std::pin::pin;

use bbq_listen::{AsyncListener, Group};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;

type Body = Either<Full<Bytes>, Incoming>;

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => (StatusCode::OK, Either::Left(Full::from("OK"))),
        (&Method::POST, "/echo") => (StatusCode::OK, Either::Right(request.into_body())),
        _ => (StatusCode::NOT_FOUND, Either::Left(Full::default())),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    Ok(response)
}

/// One worker.
async fn serve(mut listener: AsyncListener) -> io::Result<()> {
    let mut stopped = pin!(listener.stopped());
    let (connections, stopping) = (GracefulShutdown::new(), listener.stopping());
    let answer = service_fn(move |request| {
        let is_last = stopping();
        async move {
            let mut response = answer(request).await?;
            if is_last {
                // Else the client's next request may be on its way when the connection is closed as idle.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _peer) = accepted?;
                // With a timer, hyper closes connections that take too long to send a request.
                let mut builder = http1::Builder::new();
                let connection = builder.timer(TokioTimer::new());
                let connection = connection.serve_connection(TokioIo::new(stream), answer.clone());
                // Errors are those of clients that leave.
                tokio::spawn(connections.watch(connection));
            }
            () = &mut stopped => break,
        }
    }
    connections.shutdown().await;
    Ok(())
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let group = Group::at(&address)?.activated_or_open()?;
    println!("listening on {}", group.local_address());
    group.run_tokio(serve)
}
