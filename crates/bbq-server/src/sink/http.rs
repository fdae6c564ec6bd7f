//! `http://HOST[:PORT]/PATH` and `https:` post messages to a server, one message on each line of a body.
//!
//! A body is delivered when the status of the response is 2xx; the rest of the response matters for one preset alone. A body that the server
//! refuses for good (400, 413, 422) is halved until the refused messages are found. These become dead letters, and the others are
//! delivered. After any other response the same body is sent again. Each message arrives at least once: after a kill, messages
//! that were on their way or were delivered since the last commit are sent again.
//!
//! Some servers respond 400 to everything when the path, the query or the format is wrong. So before the server has taken a
//! message with the same URL and format, only a few messages are rejected; then the sink waits.

mod coding;
mod preset;
mod response;
mod retry_after;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bbq_storage::Storage;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use coding::Coding;
use preset::{Preset, Verdict};
use retry_after::RetryAfter;

use super::async_sink::{AsyncSink, Destination};
use super::dead_letters::DEAD_LETTERS_OPTION;
use super::delivery::{Delivery, Part};
use super::interface::{Now, OpenError, Sink};
use super::kind::{Kind, Target};
use super::resolver::Resolver;
use super::text::target::{FORMAT_WORDS, format_option};
use super::tls_options;
use crate::config::ConfigError;
use crate::config::query::{Query, SpecOption};
use crate::config::secret::Secret;
use crate::config::spec_text::without_user;
use crate::config::values::Values;
use crate::format::{Format, Formatter};
use crate::tls::ClientTls;

/// Bytes of a body, unless one message is larger: so many that the cost of a request does not matter; most servers allow more.
const BODY_BYTES_TARGET: usize = 1024 * 1024;
/// A server that does not accept a connection within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request whose status does not come within this time has failed, and is sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Most groups that are on their way: memory is bounded by this many groups.
const IN_FLIGHT_MAX: u64 = 16;
/// Most messages that are rejected before the server has taken one.
const FIRST_REFUSALS_MAX: u64 = 16;
/// In place of the number of first refusals: the server has taken a message.
const TAKEN: u64 = u64::MAX;
/// Why messages are rejected.
const REFUSED: &str = "refused";

/// The options of both kinds.
const OPTIONS: [SpecOption; 7] = [
    preset::OPTION,
    format_option("json"),
    SpecOption {
        key: "query",
        values: Values::Text { form: "key=value&...", pattern: "" },
        default: "none",
        meaning: "what follows the question mark of the URL; with an `&` only in a table",
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
        meaning: "groups of messages in flight at a time; with more than 1, messages may arrive out of order",
    },
    SpecOption {
        key: "compress",
        values: Values::Words(&["none", "gzip", "zstd"]),
        default: "none",
        meaning: "compresses the bodies (`Content-Encoding`)",
    },
    DEAD_LETTERS_OPTION,
];
/// The options of `https:`.
const TLS_OPTIONS: [SpecOption; 10] = {
    let [preset, format, query, authorization, in_flight, compress, dead_letters] = OPTIONS;
    let [ca, certificate, key] = tls_options::OPTIONS;
    [preset, format, query, authorization, in_flight, compress, dead_letters, ca, certificate, key]
};

pub(super) static HTTP: Kind = Kind {
    word: "http",
    argument: "//HOST[:PORT]/PATH",
    summary: "posts lines to a server",
    options: &OPTIONS,
    is_exclusive: false,
    parse: |argument, query| parse("http", argument, query, None),
};

pub(super) static HTTPS: Kind = Kind {
    word: "https",
    argument: "//HOST[:PORT]/PATH",
    summary: "posts lines to a server, by TLS",
    options: &TLS_OPTIONS,
    is_exclusive: false,
    parse: |argument, query| {
        let shown = without_user(&format!("https:{argument}"));
        let tls = tls_options::take(&shown, query)?;
        parse("https", argument, query, Some(tls))
    },
};

fn parse(
    scheme: &str,
    argument: &str,
    query: &mut Query<'_>,
    tls: Option<ClientTls>,
) -> Result<Arc<dyn Target>, ConfigError> {
    let url = format!("{scheme}:{argument}");
    let shown = without_user(&url);
    let wrong = |why: &str| ConfigError::new(format!("{shown:?}: {why}; write {scheme}://HOST:PORT/PATH"));
    if !argument.strip_prefix("//").is_some_and(|rest| rest.starts_with(|first| first != '/')) {
        return Err(wrong("no host"));
    }
    let behind = query.take("query", |text| Ok(text.to_owned()))?;
    let full = behind.map_or_else(|| url.clone(), |behind| format!("{url}?{behind}"));
    let uri: Uri = full.parse().map_err(|error: hyper::http::uri::InvalidUri| wrong(&error.to_string()))?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(wrong("the URL must not have a user and a password, use authorization_file"));
    }
    if uri.host().map(str::len) != uri.authority().map(|authority| authority.as_str().len())
        && uri.port_u16().is_none_or(|port| port == 0)
    {
        return Err(wrong("the port is not a number from 1 to 65535"));
    }
    let preset = query.take_word("preset", &preset::WORDS)?.unwrap_or_default();
    let format = query.take_word("format", &FORMAT_WORDS)?.unwrap_or(Format::Json);
    let format = preset
        .format(format)
        .ok_or_else(|| wrong("preset=elasticsearch sends JSON; leave format=raw out"))?;
    let secret = query.take_secret("authorization")?;
    let authorization = secret.as_ref().map(|secret| {
        let mut value = HeaderValue::from_str(secret.expose())
            .map_err(|_| wrong("authorization has characters that a header cannot have"))?;
        value.set_sensitive(true);
        Ok(value)
    });
    let authorization = authorization.transpose()?;
    let in_flight = query.take_number("in_flight")?.unwrap_or(1);
    let in_flight = usize::try_from(in_flight).unwrap_or(1);
    let coding = query.take_word("compress", &coding::WORDS)?.unwrap_or_default();
    Ok(Arc::new(HttpTarget { uri, tls, preset, format, coding, authorization, secret, in_flight }))
}

#[derive(Clone, Debug)]
struct HttpTarget {
    uri: Uri,
    /// `None` for `http:`.
    tls: Option<ClientTls>,
    preset: Preset,
    format: Format,
    coding: Coding,
    authorization: Option<HeaderValue>,
    /// The same secret, to hide it in texts from the server.
    secret: Option<Secret>,
    in_flight: usize,
}

impl Target for HttpTarget {
    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let resolver = Resolver::start().map_err(OpenError::NotYet)?;
        let mut connector = HttpConnector::new_with_resolver(resolver);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let tls = match &self.tls {
            Some(tls) => tls.read(),
            // Not used.
            None => ClientTls::nobody(),
        };
        let tls = tls.map_err(|error| OpenError::NotYet(io::Error::other(error)))?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        let first_refusals = state.and_then(|state| self.first_refusals(state)).unwrap_or(0);
        let first_refusals = AtomicU64::new(first_refusals);
        let destination = HttpDestination {
            target: self.clone(),
            client,
            first_refusals,
            retry_after: RetryAfter::default(),
        };
        let sink = AsyncSink::new(destination, self.in_flight).map_err(OpenError::NotYet)?;
        Ok(Box::new(sink))
    }
}

impl HttpTarget {
    /// What the cursor remembers: `taken <format> <URI>`, or `refused <number> <format> <URI>`; with the compression, if there is one.
    fn state(&self, first_refusals: u64) -> String {
        let HttpTarget { uri, format, coding, .. } = self;
        let coding = if *coding == Coding::None { String::new() } else { format!(" {coding:?}") };
        match first_refusals {
            TAKEN => format!("taken {format:?} {uri}{coding}"),
            refusals => format!("refused {refusals} {format:?} {uri}{coding}"),
        }
    }

    /// The first refusals in a state; `None` if the state is that of another format or URI.
    fn first_refusals(&self, state: &str) -> Option<u64> {
        (0..=FIRST_REFUSALS_MAX).chain([TAKEN]).find(|refusals| state == self.state(*refusals))
    }
}

struct HttpDestination {
    target: HttpTarget,
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    /// Messages that were rejected before the server took one, or [`TAKEN`]: from then on a refused message is itself at fault.
    first_refusals: AtomicU64,
    retry_after: RetryAfter,
}

impl Destination for HttpDestination {
    async fn deliver(&self, delivery: &mut Delivery) -> io::Result<()> {
        self.retry_after.wait().await;
        let mut formatter = Formatter::new(self.target.format);
        while let Some(mut part) = delivery.next_part(&mut formatter, BODY_BYTES_TARGET) {
            let body = self.target.preset.body(std::mem::take(&mut part.text));
            let response = self.post(body).await?;
            let has_all = response.status().is_success() && !self.target.preset.has_verdicts();
            if has_all {
                self.confirm(delivery, &part);
                response::finish(response).await;
                continue;
            }
            match self.verdict(response, part.records).await? {
                Verdict::Taken => self.confirm(delivery, &part),
                Verdict::Later(why) => return Err(io::Error::other(why)),
                Verdict::Refused(_) if part.records > 1 => delivery.halve(&part),
                Verdict::Refused(why) => {
                    self.count_refusal(&why)?;
                    delivery.reject(&part, REFUSED, why);
                }
            }
        }
        Ok(())
    }

    fn state(&self) -> String {
        self.target.state(self.first_refusals.load(Ordering::Relaxed))
    }
}

impl HttpDestination {
    fn confirm(&self, delivery: &mut Delivery, part: &Part) {
        self.first_refusals.store(TAKEN, Ordering::Relaxed);
        delivery.confirm(part);
    }

    /// What a response says that is not just a good status.
    async fn verdict(&self, response: Response<Incoming>, records: u64) -> io::Result<Verdict> {
        let HttpTarget { uri, preset, secret, .. } = &self.target;
        if !response.status().is_success() {
            let wait = self.retry_after.note(&response);
            let refusal = response::refusal(uri, response, secret.as_ref()).await;
            return refusal.map(Verdict::Refused).map_err(|error| match wait {
                None => error,
                Some(wait) => {
                    io::Error::other(format!("{error}; it wants to be asked again in {} s", wait.as_secs()))
                }
            });
        }
        let body = tokio::time::timeout(REQUEST_TIMEOUT, response::whole(response)).await;
        let body = body.map_err(|_| late(uri))?;
        let body =
            body.map_err(|error| io::Error::other(format!("{uri} responds, but not to the end: {error}")))?;
        let shown = |why: String| format!("{uri}: {}", response::shown(&why, secret.as_ref()));
        let (verdict, has_some) = preset.verdict(&body, records);
        if has_some {
            self.first_refusals.store(TAKEN, Ordering::Relaxed);
        }
        Ok(match verdict {
            Verdict::Taken => Verdict::Taken,
            Verdict::Later(why) => Verdict::Later(shown(why)),
            Verdict::Refused(why) => Verdict::Refused(shown(why)),
        })
    }

    /// Fails if the server has refused too many messages before it took one.
    fn count_refusal(&self, why: &str) -> io::Result<()> {
        match self.first_refusals.load(Ordering::Relaxed) {
            TAKEN => Ok(()),
            FIRST_REFUSALS_MAX.. => Err(io::Error::other(format!(
                "{why}; it has taken nothing yet: check path, query, preset, format and compress"
            ))),
            refusals => {
                self.first_refusals.store(refusals + 1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Posts a body. Returns the response once its head has arrived.
    async fn post(&self, body: Vec<u8>) -> io::Result<Response<Incoming>> {
        let HttpTarget { uri, preset, format, coding, authorization, .. } = &self.target;
        let mut request = Request::new(Full::new(coding.encode(body)?.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        request.headers_mut().insert(CONTENT_TYPE, preset.content_type(*format));
        if let Some(name) = coding.name() {
            request.headers_mut().insert(CONTENT_ENCODING, name);
        }
        if let Some(value) = authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        let asked = tokio::time::timeout(REQUEST_TIMEOUT, self.client.request(request)).await;
        let response = asked.map_err(|_| late(uri))?;
        response.map_err(|error| unreachable(uri, &error))
    }
}

fn late(uri: &Uri) -> io::Error {
    let seconds = REQUEST_TIMEOUT.as_secs();
    io::Error::new(io::ErrorKind::TimedOut, format!("{uri} did not respond within {seconds} s"))
}

/// Shows the innermost cause of the error, which says more than the error itself.
fn unreachable(uri: &Uri, error: &hyper_util::client::legacy::Error) -> io::Error {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let text = deepest.to_string();
    let remedy = if text.contains("InvalidContentType") {
        "; it does not speak TLS: write http://"
    } else if text.contains("CaUsedAsEndEntity") {
        "; the server shows the certificate of an authority as its own: make one that is not (CA:FALSE)"
    } else if text.contains("invalid peer certificate") {
        "; check tls_ca and the host's name"
    } else if text.contains("received fatal alert") {
        "; check tls_cert: the server does not accept what it was shown"
    } else {
        ""
    };
    io::Error::other(format!("cannot post to {uri}: {text}{remedy}"))
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
        for (spec, words) in [
            ("https://host/?tls_cert=/nowhere", "tls_key=PATH"),
            ("https://host/?tls_key=/nowhere", "tls_cert=PATH"),
            ("https://host/?tls_ca=/nowhere", "tls_ca: cannot read /nowhere"),
            ("https://host:port/?tls_ca=/nowhere", "tls_ca"),
            ("http://host/?tls_ca=/nowhere", "unknown option \"tls_ca\""),
            ("http://host/?compress=lz4", "none, gzip, zstd"),
        ] {
            let error = SinkSpec::parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        for spec in ["http://host", "http://[::1]:9428/in", "http://host/in?format=raw&in_flight=16"] {
            assert!(SinkSpec::parse(spec).is_ok(), "{spec}");
        }
    }
}
