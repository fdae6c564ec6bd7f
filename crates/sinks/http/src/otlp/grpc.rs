//! OTLP by gRPC: a unary call for each request, over HTTP/2.
//!
//! ```text
//! request    headers (te: trailers), then 1 if the message is compressed, else 0 (1 byte), its length (4 bytes, big-endian), and the message
//! response   the same, then trailers with grpc-status and grpc-message; of an error, these may be in the headers
//! ```

use std::io::{self, Read as _};

use bbq_format::otlp::answer;
use bbq_format::{Format, Formatter};
use bbq_sink::{Answer, Exchange, Part, Receiver, Verdict};
use bbq_wire::otlp::join;
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, TE};
use hyper::{Response, StatusCode};

use super::grpc_status::GrpcStatus;
use super::request::{Settings, error};
use crate::http::client::HttpClient;
use crate::http::coding::Coding;
use crate::http::{response, retry_after};

/// The path of the call.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// Bytes in front of a message.
const PREFIX_BYTES: usize = 5;
/// A request with one log record that is not larger is not too large for any receiver (the default limit of gRPC is 4 MiB).
const LARGE_BYTES: usize = 1024 * 1024;
/// A response has a number and a text.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// See the module.
pub(super) struct GrpcCalls(pub(super) Settings);

impl Exchange for GrpcCalls {
    type Server = HttpClient;

    const EMPTY_DECIDES: bool = true;

    fn formatter(&self) -> Formatter {
        Formatter::new(Format::Otlp)
    }

    async fn exchange(&self, to: &Receiver<HttpClient>, text: Vec<u8>, part: &Part) -> io::Result<Answer> {
        let may_be_too_large = part.records > 1 || text.len() > LARGE_BYTES;
        self.call(to, text, may_be_too_large).await.map(Answer::from)
    }

    async fn takes_empty(&self, to: &Receiver<HttpClient>) -> bool {
        matches!(self.call(to, Vec::new(), false).await, Ok(Verdict::Taken))
    }
}

impl GrpcCalls {
    /// Makes a call with these records.
    async fn call(
        &self,
        to: &Receiver<HttpClient>,
        text: Vec<u8>,
        may_be_too_large: bool,
    ) -> io::Result<Verdict> {
        let coding = self.0.coding;
        let body = framed(&coding.encode(join(&text))?, coding != Coding::None)?;
        let mut request = self.0.request(&to.server.uri, body.into(), "application/grpc");
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        if let Some(name) = coding.name() {
            request.headers_mut().insert(ENCODING, name);
        }
        let response = to.server.request(request).await?;
        self.verdict(to, response, may_be_too_large).await
    }

    async fn verdict(
        &self,
        from: &Receiver<HttpClient>,
        response: Response<Incoming>,
        may_be_too_large: bool,
    ) -> io::Result<Verdict> {
        let uri = &from.server.uri;
        let http_status = response.status();
        if http_status != StatusCode::OK {
            // Not from a server of gRPC, but from what is in front of it.
            let wait = retry_after::note(from, &response);
            let text = response::beginning(response).await;
            let text = String::from_utf8_lossy(&text);
            let refusal = response::refusal(uri, http_status, &text, &self.0.headers);
            return refusal.map(Verdict::Refused).map_err(|error| retry_after::shown(error, wait));
        }
        let (head, body) = response.into_parts();
        let (message, trailers) = match GrpcStatus::of(&head.headers) {
            Some(_) => (Vec::new(), head.headers),
            None => whole(body).await.map_err(|why| error(uri, &format!("responds incompletely: {why}")))?,
        };
        let Some(status) = GrpcStatus::of(&trailers) else {
            return Err(error(uri, "responds without grpc-status; it does not speak gRPC"));
        };
        if status.is_ok() {
            let response = match unframed(&message) {
                // Only a status: everything is taken.
                None if message.is_empty() => None,
                None => return Err(error(uri, "responds with something other than OTLP")),
                Some(response) => response.partial_success,
            };
            return Ok(self.0.taken(uri, response));
        }
        let verdict = status.verdict(uri, |text| self.0.shown(text), may_be_too_large);
        Ok(match (verdict, status.retry_delay) {
            (Verdict::Later(why), Some(delay)) => {
                let wait = from.leave_alone(delay);
                Verdict::Later(retry_after::shown(io::Error::other(why), Some(wait)).to_string())
            }
            (verdict, _) => verdict,
        })
    }
}

/// The response in a message. Some servers compress it as the request was, so by gzip.
fn unframed(message: &[u8]) -> Option<bbq_format::otlp::Response> {
    let (prefix, message) = message.split_first_chunk::<PREFIX_BYTES>()?;
    match prefix[0] {
        0 => answer::response(message, false),
        1 => {
            let mut whole = Vec::new();
            GzDecoder::new(message).take(RESPONSE_BYTES_MAX as u64).read_to_end(&mut whole).ok()?;
            answer::response(&whole, false)
        }
        _ => None,
    }
}

/// A message with its prefix.
fn framed(message: &[u8], is_compressed: bool) -> io::Result<Vec<u8>> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?.to_be_bytes();
    Ok([&[u8::from(is_compressed)], &length[..], message].concat())
}

/// All of a body, and what is behind it.
async fn whole(mut body: Incoming) -> io::Result<(Vec<u8>, HeaderMap)> {
    let (mut bytes, mut trailers) = (Vec::new(), HeaderMap::new());
    while let Some(frame) = body.frame().await {
        match frame.map_err(io::Error::other)?.into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
        }
        if bytes.len() > RESPONSE_BYTES_MAX {
            return Err(io::Error::other(format!("a response has more than {RESPONSE_BYTES_MAX} bytes")));
        }
    }
    Ok((bytes, trailers))
}

#[cfg(test)]
mod tests {
    use bbq_format::otlp::{PartialSuccess, Response};
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_response_may_be_compressed_as_the_request_was() {
        let partial = PartialSuccess { rejected_log_records: 3, error_message: "too old".to_owned() };
        for response in [Response::default(), Response { partial_success: Some(partial) }] {
            let message = response.encode_to_vec();
            let compressed = Coding::Gzip.encode(message.clone()).unwrap();
            for framed in [framed(&message, false), framed(&compressed, true)] {
                assert_eq!(unframed(&framed.unwrap()), Some(response.clone()));
            }
            assert_eq!(unframed(&framed(b"no gzip", true).unwrap()), None);
        }
        // One that would fill the memory is cut off, and so is something else.
        let large = Response {
            partial_success: Some(PartialSuccess {
                rejected_log_records: 0,
                error_message: "x".repeat(RESPONSE_BYTES_MAX),
            }),
        };
        let compressed = Coding::Gzip.encode(large.encode_to_vec()).unwrap();
        assert_eq!(unframed(&framed(&compressed, true).unwrap()), None);
    }
}
