//! `http://HOST[:PORT]/PATH` posts messages to a server, a message on each line of a body.
//!
//! A body is delivered when the server responds with 2xx. What it refuses for good (400, 413, 415, 422) is halved until the messages
//! are found that it does not take; these are rejected, and the others delivered. After any other response the same body is sent
//! again. Each message arrives at least once: what was sent since the last commit is sent again after a kill.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_storage::Storage;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::async_sink::{AsyncSink, Destination};
use super::delivery::{Delivery, PartLimits};
use super::interface::{Now, OpenError, Sink};
use super::kind::{Kind, Target};
use super::text::target::{FORMAT_WORDS, format_option};
use crate::config::ConfigError;
use crate::config::query::{Query, SpecOption};
use crate::config::values::Values;
use crate::format::{Format, Formatter};

/// Bytes of a body, unless one message is larger: what a request costs vanishes beside so many, and servers mostly allow more.
const BODY_BYTES_TARGET: usize = 1024 * 1024;
/// A server that does not accept a connection within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request that is not answered within this time has failed, and is sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a response that are read; the beginning is shown when it is an error.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
const RESPONSE_SHOWN_MAX: usize = 200;
/// Groups that are on their way at most: memory is bounded by a group for each.
const IN_FLIGHT_MAX: u64 = 16;
/// Why messages are rejected.
const REFUSED: &str = "refused";

pub(super) static HTTP: Kind = Kind {
    word: "http",
    argument: "//HOST[:PORT]/PATH",
    summary: "posts lines to a server",
    options: &[
        format_option("json"),
        SpecOption {
            key: "query",
            values: Values::Text { form: "key=value&...", pattern: "" },
            default: "none",
            meaning: "what stands behind the question mark of the URL; with an `&` only in a table",
        },
        SpecOption {
            key: "authorization",
            values: Values::Secret,
            default: "none",
            meaning: "the header `Authorization`, such as `Bearer TOKEN`",
        },
        SpecOption {
            key: "in_flight",
            values: Values::Number(1..=IN_FLIGHT_MAX),
            default: "1",
            meaning: "groups of messages that are on their way at a time; with more than 1 they may arrive out of order",
        },
    ],
    is_exclusive: false,
    parse,
};

fn parse(argument: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    let url = format!("http:{argument}");
    let wrong = |why: &str| ConfigError::new(format!("{url:?}: {why}; write http://HOST:PORT/PATH"));
    if !argument.strip_prefix("//").is_some_and(|rest| rest.starts_with(|first| first != '/')) {
        return Err(wrong("no host"));
    }
    let behind = query.take("query", |text| Ok(text.to_owned()))?;
    let full = behind.map_or_else(|| url.clone(), |behind| format!("{url}?{behind}"));
    let uri: Uri = full.parse().map_err(|error: hyper::http::uri::InvalidUri| wrong(&error.to_string()))?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(wrong("a user and a password do not stand in the URL, use authorization_file"));
    }
    if uri.host().map(str::len) != uri.authority().map(|authority| authority.as_str().len())
        && uri.port_u16().is_none_or(|port| port == 0)
    {
        return Err(wrong("the port is no number from 1 to 65535"));
    }
    let format = query.take_word("format", &FORMAT_WORDS)?.unwrap_or(Format::Json);
    let authorization = query.take_secret("authorization")?;
    let authorization = authorization.map(|secret| {
        let mut value = HeaderValue::from_str(secret.expose())
            .map_err(|_| wrong("authorization is no text that can stand in a header"))?;
        value.set_sensitive(true);
        Ok(value)
    });
    let authorization = authorization.transpose()?;
    let in_flight = query.take_number("in_flight")?.unwrap_or(1);
    let in_flight = usize::try_from(in_flight).unwrap_or(1);
    Ok(Arc::new(HttpTarget { uri, format, authorization, in_flight }))
}

#[derive(Clone, Debug)]
struct HttpTarget {
    uri: Uri,
    format: Format,
    authorization: Option<HeaderValue>,
    in_flight: usize,
}

impl Target for HttpTarget {
    fn open(&self, _: &Arc<dyn Storage>, _: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        let destination = HttpDestination { target: self.clone(), client };
        let sink = AsyncSink::new(destination, self.in_flight).map_err(OpenError::NotYet)?;
        Ok(Box::new(sink))
    }
}

struct HttpDestination {
    target: HttpTarget,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// What the server says to a body.
enum Verdict {
    Taken,
    /// The same body will never be taken.
    Refused,
}

impl Destination for HttpDestination {
    async fn deliver(&self, delivery: &mut Delivery) -> io::Result<()> {
        let mut formatter = Formatter::new(self.target.format);
        let mut limits = PartLimits { records: u64::MAX, bytes: BODY_BYTES_TARGET };
        while let Some(mut part) = delivery.next_part(&mut formatter, limits) {
            let body = std::mem::take(&mut part.text);
            match self.post(body.into()).await? {
                Verdict::Taken => {
                    delivery.pass(&part);
                    limits.records = limits.records.saturating_mul(2);
                }
                Verdict::Refused if part.records > 1 => limits.records = part.records / 2,
                Verdict::Refused => delivery.reject(&part, REFUSED),
            }
        }
        Ok(())
    }
}

impl HttpDestination {
    async fn post(&self, body: Bytes) -> io::Result<Verdict> {
        let HttpTarget { uri, format, authorization, .. } = &self.target;
        let content_type = match format {
            Format::Json => "application/x-ndjson",
            Format::Raw => "text/plain",
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(value) = authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        let ask = async {
            let response = self.client.request(request).await.map_err(|error| unreachable(uri, &error))?;
            let status = response.status();
            // Read to its end, so that the connection can be used again.
            let text = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await;
            Ok::<_, io::Error>((status, text.map(|text| text.to_bytes()).unwrap_or_default()))
        };
        let asked = tokio::time::timeout(REQUEST_TIMEOUT, ask).await;
        let (status, text) = asked.map_err(|_| {
            let seconds = REQUEST_TIMEOUT.as_secs();
            io::Error::new(io::ErrorKind::TimedOut, format!("{uri} did not respond within {seconds} s"))
        })??;
        verdict(uri, status, &text)
    }
}

fn verdict(uri: &Uri, status: StatusCode, text: &[u8]) -> io::Result<Verdict> {
    if status.is_success() {
        return Ok(Verdict::Taken);
    }
    let remedy = match status {
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::UNPROCESSABLE_ENTITY => return Ok(Verdict::Refused),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; check the option authorization",
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => "; check the path",
        _ if status.is_redirection() => "; write the URL that it redirects to",
        _ => "",
    };
    let shown = String::from_utf8_lossy(&text[..text.len().min(RESPONSE_SHOWN_MAX)]);
    let shown = shown.lines().next().unwrap_or_default();
    Err(io::Error::other(format!("{uri} responds {status} {shown:?}{remedy}")))
}

/// With what is behind the error, which says more.
fn unreachable(uri: &Uri, error: &hyper_util::client::legacy::Error) -> io::Error {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    io::Error::other(format!("cannot post to {uri}: {deepest}"))
}

#[cfg(test)]
mod tests {
    use crate::sink::SinkSpec;

    #[test]
    fn mistakes_in_the_url_are_named() {
        for (spec, words) in [
            ("http:host/path", "no host"),
            ("http://", "no host"),
            ("http:///path", "no host"),
            ("http://user:password@host/", "authorization_file"),
            ("http://host/a b", "invalid uri character"),
            ("http://host:port/", "the port"),
        ] {
            let error = SinkSpec::parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("write http://HOST:PORT/PATH"), "{error}");
        }
        for spec in ["http://host", "http://[::1]:9428/in", "http://host/in?format=raw&in_flight=16"] {
            assert!(SinkSpec::parse(spec).is_ok(), "{spec}");
        }
    }
}
