//! OTLP by HTTP: a post for each request, in Protocol Buffers (opentelemetry.io/docs/specs/otlp, "OTLP/HTTP").
//!
//! ```text
//! 2xx                  taken; the body may say that some are rejected (a partial success)
//! 400, 413, 422        refused for good
//! 429, 502, 503, 504   may be taken later, after Retry-After
//! 500                  not to be sent again; but a server that says so of everything is at fault
//! others               a mistake in the configuration: the sink waits until it is repaired
//! ```

use std::io;

use bbq_format::otlp::answer;
use bbq_format::{Format, Formatter};
use bbq_sink::{Answer, Exchange, Part, Receiver, Verdict};
use bbq_wire::otlp::join;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::request::{Settings, error};
use crate::http::client::HttpClient;
use crate::http::coding::Coding;
use crate::http::{response, retry_after};

const PROTOBUF: &str = "application/x-protobuf";

/// See the module.
pub(super) struct HttpPosts(pub(super) Settings);

impl Exchange for HttpPosts {
    type Server = HttpClient;

    const EMPTY_DECIDES: bool = true;

    fn formatter(&self) -> Formatter {
        Formatter::new(Format::Otlp)
    }

    async fn exchange(&self, to: &Receiver<HttpClient>, text: Vec<u8>, _part: &Part) -> io::Result<Answer> {
        self.post(to, text).await.map(Answer::from)
    }

    async fn takes_empty(&self, to: &Receiver<HttpClient>) -> bool {
        matches!(self.post(to, Vec::new()).await, Ok(Verdict::Taken))
    }
}

impl HttpPosts {
    /// Sends a request with these records.
    async fn post(&self, to: &Receiver<HttpClient>, text: Vec<u8>) -> io::Result<Verdict> {
        let coding = if text.is_empty() { Coding::None } else { self.0.coding };
        let mut request = self.0.request(&to.server.uri, coding.encode(join(&text))?.into(), PROTOBUF);
        if let Some(name) = coding.name() {
            request.headers_mut().insert(CONTENT_ENCODING, name);
        }
        if text.is_empty() {
            // hyper leaves it out, and some servers ask for it (RFC 9110, 8.6).
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let response = to.server.request(request).await?;
        self.verdict(to, response).await
    }

    async fn verdict(
        &self,
        from: &Receiver<HttpClient>,
        response: Response<Incoming>,
    ) -> io::Result<Verdict> {
        let uri = &from.server.uri;
        let status = response.status();
        if status.is_success() {
            let is_json = has_type(&response, "application/json");
            let body = response::whole(uri, response).await?;
            let Some(response) = answer::response(&body, is_json) else {
                return Err(error(uri, "responds with something other than OTLP; check the path"));
            };
            return Ok(self.0.taken(uri, response.partial_success));
        }
        let wait = retry_after::note(from, &response);
        let is_protobuf = has_type(&response, PROTOBUF);
        let text = answer::error_text(&response::beginning(response).await, is_protobuf);
        match response::refusal(uri, status, &text, &self.0.headers) {
            Ok(why) if status == StatusCode::PAYLOAD_TOO_LARGE => Ok(Verdict::TooLarge(why)),
            Ok(why) => Ok(Verdict::Refused(why)),
            Err(error) if status == StatusCode::INTERNAL_SERVER_ERROR => {
                Ok(Verdict::Failed(error.to_string()))
            }
            Err(error) => Err(retry_after::shown(error, wait)),
        }
    }
}

fn has_type(response: &Response<Incoming>, wanted: &str) -> bool {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted))
}
