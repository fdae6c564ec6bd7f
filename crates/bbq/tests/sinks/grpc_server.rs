//! A receiver of OTLP logs by gRPC whose responses a test chooses.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};

/// Requests that a test does not look at.
const REQUESTS_MAX: usize = 16 * 1024;
/// Bytes in front of a message.
const PREFIX_BYTES: usize = 5;

/// The response to a request.
pub(crate) enum Reply {
    /// The bytes of an ExportLogsServiceResponse.
    Taken(Vec<u8>),
    /// grpc-status, grpc-message, and other headers. It comes without a body.
    Refused(i32, &'static str, Vec<(&'static str, String)>),
    /// The client waits.
    Nothing,
}

type Respond = Arc<Mutex<dyn FnMut(Option<&str>, &[u8]) -> Reply + Send>>;

/// Returns the address of a server, and the messages of the requests to it, uncompressed ones.
pub(crate) fn serve(mut respond: impl FnMut(&[u8]) -> Reply + Send + 'static) -> (String, Receiver<Vec<u8>>) {
    serve_with_authorization(move |_, message| respond(message))
}

/// The same; `respond` is given the header `authorization` as well.
pub(crate) fn serve_with_authorization(
    respond: impl FnMut(Option<&str>, &[u8]) -> Reply + Send + 'static,
) -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its own").to_string();
    listener.set_nonblocking(true).expect("a socket");
    let (told, requests) = mpsc::sync_channel(REQUESTS_MAX);
    let respond: Respond = Arc::new(Mutex::new(respond));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let (told, respond) = (told.clone(), Arc::clone(&respond));
                let service = service_fn(move |request| call(request, told.clone(), Arc::clone(&respond)));
                tokio::spawn(
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
    });
    (address, requests)
}

async fn call(
    request: Request<Incoming>,
    told: SyncSender<Vec<u8>>,
    respond: Respond,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    assert_eq!(request.uri().path(), "/opentelemetry.proto.collector.logs.v1.LogsService/Export");
    assert_eq!(request.headers()["content-type"], "application/grpc");
    assert_eq!(request.headers()["te"], "trailers");
    let authorization = request.headers().get("authorization").cloned();
    let authorization = authorization.as_ref().and_then(|value| value.to_str().ok());
    let body = request.into_body().collect().await?.to_bytes();
    let length = u32::from_be_bytes(body[1..PREFIX_BYTES].try_into().expect("four bytes"));
    assert_eq!((body[0], length as usize), (0, body.len() - PREFIX_BYTES));
    let message = body[PREFIX_BYTES..].to_vec();
    let reply = respond.lock().expect("no panic")(authorization, &message);
    let _nobody_looks = told.try_send(message);
    let mut status = HeaderMap::new();
    let message = match reply {
        Reply::Nothing => std::future::pending().await,
        Reply::Taken(message) => message,
        Reply::Refused(code, text, more) => {
            status.insert("grpc-status", code.into());
            status.insert("grpc-message", HeaderValue::from_static(text));
            for (name, value) in more {
                status.insert(name, HeaderValue::from_str(&value).expect("a value"));
            }
            let mut response = Response::new(Full::default().boxed());
            response.headers_mut().extend(status);
            return Ok(response);
        }
    };
    status.insert("grpc-status", 0.into());
    let length = (message.len() as u32).to_be_bytes();
    let framed = Bytes::from([&[0][..], &length, &message].concat());
    let body = Full::new(framed).with_trailers(async { Some(Ok(status)) });
    Ok(Response::new(body.boxed()))
}
