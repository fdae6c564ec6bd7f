//! `http://HOST[:PORT][,...]/PATH` and `https:` post messages to a server, or to one of several, one message on each line of a body.
//!
//! A body is delivered when the status of the response is 2xx; the rest of the response matters for one preset alone. A body that the server
//! refuses for good (400, 413, 422) is halved until the refused messages are found. These become dead letters, and the others are
//! delivered. So is one to which it responds 500; but a message on which it fails alone is tried for a minute before it becomes a dead letter.
//! After any other response the same body is sent again. Each message arrives at least once: after a kill, messages
//! that were on their way or were delivered since the last commit are sent again. By two presets the server knows what it has already.
//!
//! Some servers respond 400 to everything when the path, the query or the format is wrong (`bbq_sink::requests`).

pub(super) mod client;
pub(super) mod coding;
pub(super) mod headers;
mod index;
mod preset;
pub mod response;
pub mod retry_after;
pub(super) mod url;

use std::io;
use std::sync::{Arc, Mutex};

use bbq_format::names::{NameTemplate, Names};
use bbq_format::{FieldLabels, Format, Formatter, Labels};
use bbq_sink::{
    Answer, DEAD_LETTERS_OPTION, Exchange, FORMAT_WORDS, Kind, Now, OpenError, PROXY, Part, Proxy,
    REQUEST_OPTIONS, Receiver, RequestOptions, RequestSink, Sink, Target, Verdict, format_option,
    open_request_sink, tls_options,
};
use bbq_spec::{ConfigError, Query, SpecOption, Values, without_user};
use bbq_storage::Storage;
use bbq_tls::ClientTls;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};

use client::{HttpClient, Version};
use coding::Coding;
use headers::Headers;
use preset::Preset;
use url::Written;

/// What to check if a server takes nothing.
const CHECK: &str = "path, query, preset, format and compress";

const BODY_OPTIONS: [SpecOption; 6] = [
    preset::OPTION,
    preset::LABELS,
    index::OPTION,
    format_option("json"),
    SpecOption {
        key: "query",
        values: Values::Text { form: "key=value&...", pattern: "" },
        default: "none",
        meaning: "the query of the URL, without its question mark; a query with an `&` works only in a table",
    },
    SpecOption {
        key: "compress",
        values: Values::Words(&["none", "gzip", "zstd"]),
        default: "none",
        meaning: "compresses the bodies (`Content-Encoding`)",
    },
];
const OTHER_OPTIONS: [SpecOption; 2] = [PROXY, DEAD_LETTERS_OPTION];

/// `http://HOST:PORT/PATH`
pub static HTTP: Kind = Kind {
    word: "http",
    argument: "//HOST[:PORT][,...]/PATH",
    summary: "posts lines to a server; of several, to one that works",
    options: &[&BODY_OPTIONS, &headers::OPTIONS, &REQUEST_OPTIONS, &OTHER_OPTIONS],
    is_exclusive: false,
    parse: |argument, query| parse("http", argument, query, None),
};

/// `https://HOST/PATH`
pub static HTTPS: Kind = Kind {
    word: "https",
    argument: "//HOST[:PORT][,...]/PATH",
    summary: "the same, over TLS",
    options: &[&BODY_OPTIONS, &headers::OPTIONS, &REQUEST_OPTIONS, &OTHER_OPTIONS, &tls_options::OPTIONS],
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
    let written = Written::new(scheme, argument, "//HOST:PORT/PATH");
    let wrong = |why: &str| written.wrong(why);
    let behind = query.take("query", |text| Ok(url::encoded(text)))?;
    let uris = written.urls(scheme, argument, behind.as_deref())?;
    let preset = query.take_word("preset", &preset::WORDS)?.unwrap_or_default();
    if preset == Preset::Clickhouse && !uris.iter().all(|uri| url::has_key(uri, "query")) {
        return Err(ConfigError::new(format!(
            "{:?}: preset=clickhouse needs the statement; write query = \"query=INSERT INTO TABLE FORMAT JSONEachRow\"",
            written.shown()
        )));
    }
    let labels = query.take(preset::LABELS.key, Labels::parse)?;
    if labels.is_some() && preset != Preset::Loki {
        return Err(ConfigError::new(format!(
            "{:?}: labels are for Loki; write preset=loki, or leave them out",
            written.shown()
        )));
    }
    let (labels, field_labels) = labels.unwrap_or_default();
    let index = query.take(index::OPTION.key, index::parse)?;
    if index.is_some() && preset != Preset::Elasticsearch {
        return Err(ConfigError::new(format!(
            "{:?}: index is for Elasticsearch and OpenSearch; write preset=elasticsearch, or leave it out",
            written.shown()
        )));
    }
    let format = query.take_word("format", &FORMAT_WORDS)?.unwrap_or(Format::Json);
    let format = preset
        .format(format, labels)
        .ok_or_else(|| wrong("preset=elasticsearch sends JSON; leave format=raw out"))?;
    let headers = Headers::take(&written, query)?;
    let coding = query.take_word("compress", &coding::WORDS)?.unwrap_or_default();
    let options = RequestOptions::take(query)?;
    let proxy = Proxy::take(written.shown(), query)?;
    let name = query.name().to_owned();
    let labels = field_labels;
    Ok(Arc::new(HttpTarget {
        name,
        uris,
        tls,
        preset,
        index,
        labels,
        format,
        coding,
        headers,
        options,
        proxy,
    }))
}

#[derive(Clone, Debug)]
struct HttpTarget {
    /// Of the sink, for the log.
    name: String,
    /// One for each receiver.
    uris: Vec<Uri>,
    /// `None` for `http:`.
    tls: Option<ClientTls>,
    preset: Preset,
    /// Of each message.
    index: Option<NameTemplate>,
    /// Of each message, beside those in the format.
    labels: Option<FieldLabels>,
    format: Format,
    coding: Coding,
    headers: Headers,
    options: RequestOptions,
    proxy: Proxy,
}

impl Target for HttpTarget {
    fn names_parsed(&self) -> bool {
        self.names().is_some_and(NameTemplate::names_parsed)
    }

    fn takes_dead_letters(&self) -> bool {
        true
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let HttpTarget { tls, options, proxy, .. } = self;
        let servers = HttpClient::open_each(&self.uris, tls.as_ref(), Version::One, *options, proxy)?;
        let names = self.names().map(|names| Arc::new(Mutex::new(Names::new(names.clone(), &self.name))));
        let sink = RequestSink {
            name: self.name.clone(),
            servers,
            of: self.shown_requests(),
            check: CHECK,
            keeps_cuts: self.preset == Preset::Clickhouse,
            options: *options,
            exchange: HttpPosts { target: self.clone(), names },
        };
        open_request_sink(sink, state)
    }
}

impl HttpTarget {
    /// Makes the index of each message, or the values of its labels.
    fn names(&self) -> Option<&NameTemplate> {
        self.index.as_ref().or_else(|| self.labels.as_ref().map(FieldLabels::template))
    }

    /// `<format> <URIs>`; with the compression and the index or the labels, if there are such.
    fn shown_requests(&self) -> String {
        let HttpTarget { uris, format, coding, .. } = self;
        let uris: Vec<String> = uris.iter().map(Uri::to_string).collect();
        let coding = if *coding == Coding::None { String::new() } else { format!(" {coding:?}") };
        // The values of labels stand in lines of their own.
        let names =
            self.names().map(|names| format!(" {}", names.as_str().replace('\n', ","))).unwrap_or_default();
        format!("{format:?} {}{coding}{names}", uris.join(","))
    }
}

struct HttpPosts {
    target: HttpTarget,
    names: Option<Arc<Mutex<Names>>>,
}

impl Exchange for HttpPosts {
    type Server = HttpClient;

    const EMPTY_DECIDES: bool = false;

    fn formatter(&self) -> Formatter {
        let HttpTarget { format, labels, .. } = &self.target;
        match (labels, &self.names) {
            (Some(labels), Some(values)) => {
                Formatter::with_labels(*format, labels.clone(), Arc::clone(values))
            }
            (_, index) => Formatter::with_index(*format, index.clone()),
        }
    }

    async fn exchange(&self, to: &Receiver<HttpClient>, text: Vec<u8>, part: &Part) -> io::Result<Answer> {
        let preset = self.target.preset;
        let response = self.post(&to.server, preset.body(text), Some(part)).await?;
        if response.status().is_success() && !preset.has_verdicts() {
            return Ok(Answer::from(Verdict::Taken).with_rest(response::finish(response)));
        }
        self.answer(to, response, part.records).await
    }

    async fn takes_empty(&self, to: &Receiver<HttpClient>) -> bool {
        let Ok(response) = self.post(&to.server, self.target.preset.body(Vec::new()), None).await else {
            return false;
        };
        let is_taken = response.status().is_success();
        response::finish(response).await;
        is_taken
    }
}

impl HttpPosts {
    /// What a response says that is not just a good status.
    async fn answer(
        &self,
        from: &Receiver<HttpClient>,
        response: Response<Incoming>,
        records: u64,
    ) -> io::Result<Answer> {
        let HttpTarget { preset, headers, index, .. } = &self.target;
        let uri = &from.server.uri;
        if !response.status().is_success() {
            let wait = retry_after::note(from, &response);
            let status = response.status();
            let text = response::beginning(response).await;
            let verdict = match response::refusal(uri, status, &String::from_utf8_lossy(&text), headers) {
                Ok(why) if status == StatusCode::PAYLOAD_TOO_LARGE => Verdict::TooLarge(why),
                Ok(why) => Verdict::Refused(why),
                // It is one message that it cannot handle, or any.
                Err(error) if status == StatusCode::INTERNAL_SERVER_ERROR && wait.is_none() => {
                    Verdict::Failed(error.to_string())
                }
                Err(error) => return Err(retry_after::shown(error, wait)),
            };
            return Ok(verdict.into());
        }
        let body = response::whole(uri, response).await?;
        let shown = |why: String| format!("{uri}: {}", response::shown(&why, headers));
        let is_of_sender = index.as_ref().is_some_and(NameTemplate::is_per_message);
        let (verdict, has_some) = preset.verdict(&body, records, is_of_sender);
        let answer = Answer::from(match verdict {
            Verdict::Later(why) => Verdict::Later(shown(why)),
            Verdict::Refused(why) => Verdict::Refused(shown(why)),
            Verdict::Failed(why) => Verdict::Failed(shown(why)),
            verdict => verdict,
        });
        Ok(if has_some { answer.with_some_taken() } else { answer })
    }

    /// Posts a body with the messages of a part, or without any. Returns the response once its head has arrived.
    async fn post(
        &self,
        to: &HttpClient,
        body: Vec<u8>,
        part: Option<&Part>,
    ) -> io::Result<Response<Incoming>> {
        let HttpTarget { preset, format, coding, headers, .. } = &self.target;
        let coding = if body.is_empty() { Coding::None } else { *coding };
        // hyper leaves it out of a request without a body, and some servers ask for it (RFC 9110, 8.6).
        let is_empty = body.is_empty();
        let mut request = Request::new(coding.encode(body)?.into());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = match part {
            Some(part) if *preset == Preset::Clickhouse => url::with_token(&to.uri, part)?,
            _ => to.uri.clone(),
        };
        request.headers_mut().insert(CONTENT_TYPE, preset.content_type(*format));
        if let Some(name) = coding.name() {
            request.headers_mut().insert(CONTENT_ENCODING, name);
        }
        if is_empty {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        headers.add_to(request.headers_mut());
        to.request(request).await
    }
}

#[cfg(test)]
mod tests {
    use bbq_sink::Kinds;

    use super::{HTTP, HTTPS};

    static KINDS: Kinds = Kinds { present: &[&HTTP, &HTTPS], left_out: &[] };

    #[test]
    fn mistakes_in_the_url_are_named() {
        for (spec, words) in [
            ("http:host/path", "no host"),
            ("http://", "no host"),
            ("http:///path", "no host"),
            ("http://user:password@host/", "authorization_file"),
            ("http://host/a b", "invalid uri character"),
            ("http://host:port/", "the port"),
            ("http://:80/", "no host"),
            ("http://a,,b/", "no host"),
            ("http://a,/", "no host"),
            ("http://a,b:0/", "the port"),
            ("http://a,user:sesame@b/", "authorization_file"),
            ("http://a:80,b,A/", "A is listed twice"),
            ("http://a:1,http://b:1/path", "the same scheme and the same path"),
            ("http://a/path,http://b/path", "the same scheme and the same path"),
            ("http://a, b/", "invalid"),
            ("http://[::1,[::1]:2/", "invalid"),
            (
                &format!("http://h{}/", (0..16).map(|number| format!(",h{number}")).collect::<String>()),
                "more than 16",
            ),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("write http://HOST:PORT/PATH"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
        for (spec, words) in [
            ("https://host/?tls_cert=/nowhere", "tls_key=PATH"),
            ("https://host/?tls_key=/nowhere", "tls_cert=PATH"),
            ("https://host/?tls_ca=/nowhere", "tls_ca: cannot read /nowhere"),
            ("https://host:port/?tls_ca=/nowhere", "tls_ca"),
            ("http://host/?tls_ca=/nowhere", "unknown option \"tls_ca\""),
            ("http://host/?compress=lz4", "none, gzip, zstd"),
            ("http://host/_bulk?index=logs", "write preset=elasticsearch"),
            (
                "http://host/_bulk?preset=elasticsearch&index=logs-{hots}",
                "character 6: {hots} is not a field",
            ),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        for (spec, uris) in [
            ("http://host", "[http://host/]"),
            ("http://[::1]:9428/in", "[http://[::1]:9428/in]"),
            ("http://host/in?format=raw&in_flight=16", "[http://host/in]"),
            (
                "http://a:1,[::1],b:2/in,out?query=x=1",
                "[http://a:1/in,out?x=1, http://[::1]/in,out?x=1, http://b:2/in,out?x=1]",
            ),
        ] {
            let target = format!("{:?}", KINDS.parse(spec).unwrap());
            assert!(target.contains(&format!("uris: {uris}")), "{target}");
        }
    }
}
