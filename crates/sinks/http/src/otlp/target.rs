//! The four kinds, and what their SPECs say.

use std::sync::Arc;

use bbq_sink::{
    DEAD_LETTERS_OPTION, Exchange, Kind, Now, OpenError, PROXY, Proxy, REQUEST_OPTIONS, RequestOptions,
    RequestSink, Sink, Target, open_request_sink, tls_options,
};
use bbq_spec::{ConfigError, Query, SpecOption, Values};
use bbq_storage::Storage;
use bbq_tls::ClientTls;
use hyper::Uri;
use tracing::info;

use super::grpc::{self, GrpcCalls};
use super::http::HttpPosts;
use super::request::Settings;
use crate::http::client::{HttpClient, Version};
use crate::http::coding::Coding;
use crate::http::headers::{self, Headers};
use crate::http::url::Written;

/// Where receivers of OTLP by HTTP take logs.
const LOGS_PATH: &str = "/v1/logs";
/// As they are configured. Receivers need not know another one.
const CODINGS: [(&str, Coding); 2] = [("none", Coding::None), ("gzip", Coding::Gzip)];

const COMPRESS: SpecOption = SpecOption {
    key: "compress",
    values: Values::Words(&["none", "gzip"]),
    default: "none",
    meaning: "compresses the requests",
};
const OTHER_OPTIONS: [SpecOption; 3] = [COMPRESS, PROXY, DEAD_LETTERS_OPTION];

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Http,
    Grpc,
}

/// `otlp+http://HOST:PORT`
pub static HTTP: Kind = Kind {
    word: "otlp+http",
    argument: "//HOST[:PORT][,...][/PATH]",
    summary: "sends OpenTelemetry logs to a server, over HTTP",
    options: &[&headers::OPTIONS, &REQUEST_OPTIONS, &OTHER_OPTIONS],
    is_exclusive: false,
    parse: |argument, query| parse(("otlp+http", Way::Http), argument, query, false),
};

/// `otlp+https://HOST:PORT`
pub static HTTPS: Kind = Kind {
    word: "otlp+https",
    argument: "//HOST[:PORT][,...][/PATH]",
    summary: "sends OpenTelemetry logs to a server, over HTTP with TLS",
    options: &[&headers::OPTIONS, &REQUEST_OPTIONS, &OTHER_OPTIONS, &tls_options::OPTIONS],
    is_exclusive: false,
    parse: |argument, query| parse(("otlp+https", Way::Http), argument, query, true),
};

/// `otlp+grpc://HOST:PORT`
pub static GRPC: Kind = Kind {
    word: "otlp+grpc",
    argument: "//HOST:PORT[,...]",
    summary: "sends OpenTelemetry logs to a server, over gRPC",
    options: &[&headers::OPTIONS, &REQUEST_OPTIONS, &OTHER_OPTIONS],
    is_exclusive: false,
    parse: |argument, query| parse(("otlp+grpc", Way::Grpc), argument, query, false),
};

/// `otlp+grpcs://HOST:PORT`
pub static GRPCS: Kind = Kind {
    word: "otlp+grpcs",
    argument: "//HOST:PORT[,...]",
    summary: "sends OpenTelemetry logs to a server, over gRPC with TLS",
    options: &[&headers::OPTIONS, &REQUEST_OPTIONS, &OTHER_OPTIONS, &tls_options::OPTIONS],
    is_exclusive: false,
    parse: |argument, query| parse(("otlp+grpcs", Way::Grpc), argument, query, true),
};

fn parse(
    (word, way): (&'static str, Way),
    argument: &str,
    query: &mut Query<'_>,
    has_tls: bool,
) -> Result<Arc<dyn Target>, ConfigError> {
    let form = if way == Way::Http { "//HOST:PORT, or with a /PATH" } else { "//HOST:PORT" };
    let written = Written::new(word, argument, form);
    let scheme = if has_tls { "https" } else { "http" };
    let uris = written.urls(scheme, argument, None)?.into_iter().map(|given| {
        if given.query().is_some() {
            return Err(written.wrong("the URL must not have a query"));
        }
        let is_bare = matches!(given.path(), "" | "/");
        let path = match way {
            Way::Http if is_bare => LOGS_PATH,
            Way::Http => given.path(),
            Way::Grpc if is_bare => grpc::EXPORT,
            Way::Grpc => return Err(written.wrong("gRPC has a path of its own")),
        };
        let authority = given.authority().map_or("", |authority| authority.as_str());
        let uri = format!("{scheme}://{authority}{path}").parse();
        uri.map_err(|error: hyper::http::uri::InvalidUri| written.wrong(&error.to_string()))
    });
    let uris = uris.collect::<Result<Vec<Uri>, ConfigError>>()?;
    let tls = if has_tls { Some(tls_options::take(written.shown(), query)?) } else { None };
    let headers = Headers::take(&written, query)?;
    let coding = query.take_word("compress", &CODINGS)?.unwrap_or_default();
    let options = RequestOptions::take(query)?;
    let proxy = Proxy::take(written.shown(), query)?;
    let settings = Settings { uris, coding, headers };
    let (name, shown) = (query.name().to_owned(), written.shown().to_owned());
    Ok(Arc::new(OtlpTarget { name, shown, way, settings, tls, options, proxy }))
}

#[derive(Clone, Debug)]
struct OtlpTarget {
    /// Of the sink, for the log.
    name: String,
    /// The SPEC without its options.
    shown: String,
    way: Way,
    settings: Settings,
    /// `None` without TLS.
    tls: Option<ClientTls>,
    options: RequestOptions,
    proxy: Proxy,
}

impl Target for OtlpTarget {
    fn takes_dead_letters(&self) -> bool {
        true
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let settings = self.settings.clone();
        let sink = match self.way {
            Way::Http => self.open_way(HttpPosts(settings), Version::One, "path and compress", state),
            Way::Grpc => self.open_way(GrpcCalls(settings), Version::Two, "address and compress", state),
        }?;
        info!(
            sink = self.name,
            "each message arrives at least once, and may arrive twice after a kill or a lost response: OTLP has no numbers by which a \
             receiver recognizes repeats"
        );
        Ok(sink)
    }
}

impl OtlpTarget {
    fn open_way<W: Exchange<Server = HttpClient>>(
        &self,
        exchange: W,
        version: Version,
        check: &'static str,
        state: Option<&str>,
    ) -> Result<Box<dyn Sink>, OpenError> {
        let OtlpTarget { name, shown, settings, tls, options, proxy, .. } = self;
        let servers = HttpClient::open_each(&settings.uris, tls.as_ref(), version, *options, proxy)?;
        let sink = RequestSink {
            name: name.clone(),
            servers,
            of: format!("{shown} {:?}", settings.coding),
            check,
            keeps_cuts: false,
            options: *options,
            exchange,
        };
        open_request_sink(sink, state)
    }
}

#[cfg(test)]
mod tests {
    use bbq_sink::Kinds;

    use super::{GRPC, GRPCS, HTTP, HTTPS};

    static KINDS: Kinds = Kinds { present: &[&HTTP, &HTTPS, &GRPC, &GRPCS], left_out: &[] };

    #[test]
    fn the_path_is_that_of_the_specification_unless_it_is_given() {
        for (spec, uri) in [
            ("otlp+http://host:4318", "http://host:4318/v1/logs"),
            ("otlp+http://host:4318/", "http://host:4318/v1/logs"),
            ("otlp+http://host/insert/opentelemetry", "http://host/insert/opentelemetry"),
            ("otlp+https://[::1]:4318", "https://[::1]:4318/v1/logs"),
            ("otlp+http://a:1,b:2", "http://a:1/v1/logs, http://b:2/v1/logs"),
            (
                "otlp+grpc://host:4317",
                "http://host:4317/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            ),
        ] {
            let spec = KINDS.parse(spec).unwrap();
            let target = format!("{spec:?}");
            assert!(target.contains(&format!("uris: [{uri}]")), "{target}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (spec, words) in [
            ("otlp+http:host", "no host; write otlp+http://HOST:PORT"),
            ("otlp+grpc://host:4317/v1/logs", "gRPC has a path of its own; write otlp+grpc://HOST:PORT"),
            ("otlp+grpc://host:port", "the port"),
            ("otlp+grpc://a:1,b:2,a:1", "a:1 is listed twice"),
            ("otlp+http://a,otlp+http://b", "the same scheme and the same path"),
            ("otlp+grpc://user:sesame@host", "authorization_file"),
            ("otlp+http://host?compress=zstd", "none, gzip"),
            ("otlp+http://host?tls_ca=/x", "unknown option \"tls_ca\""),
            ("otlp+grpcs://host?tls_cert=/nowhere", "tls_key=PATH"),
            ("otlp://host", "write otlp+http://HOST:4318"),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("sesame"), "{error}");
        }
    }
}
