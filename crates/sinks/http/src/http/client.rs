//! A server of a sink that sends requests, and the connections to it. Errors say what to do.
//!
//! Each server has a client of its own, so a name that takes long to resolve holds up no other.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bbq_sink::{OpenError, Proxy, ProxyConnector, RequestOptions, Resolver};
use bbq_tls::ClientTls;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// A server that does not accept a connection within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection of HTTP/2 on which a request waits is probed when it is silent for this long; servers of gRPC allow a few probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
/// A connection whose probe is not answered in this time is closed: requests behind it get another one.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How requests are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1.
    One,
    /// HTTP/2, in plain text without an upgrade.
    Two,
}

type Connect = HttpsConnector<ProxyConnector>;
type Pool = legacy::Client<Connect, Full<Bytes>>;

/// See the module.
pub struct HttpClient {
    /// Where requests go.
    pub uri: Uri,
    connect: Connect,
    proxied: ProxyConnector,
    version: Version,
    /// How long a connection is used.
    connection: Duration,
    /// The connections, and since when there are some.
    pool: Mutex<(Pool, Instant)>,
}

impl HttpClient {
    /// One for each of the servers. `tls` is `None` for `http:`.
    ///
    /// # Errors
    /// A file of TLS cannot be used, or a thread not be started; try again.
    pub fn open_each(
        uris: &[Uri],
        tls: Option<&ClientTls>,
        version: Version,
        options: RequestOptions,
        proxy: &Proxy,
    ) -> Result<Vec<HttpClient>, OpenError> {
        uris.iter().map(|uri| HttpClient::open(uri.clone(), tls, version, options, proxy)).collect()
    }

    fn open(
        uri: Uri,
        tls: Option<&ClientTls>,
        version: Version,
        options: RequestOptions,
        proxy: &Proxy,
    ) -> Result<HttpClient, OpenError> {
        let resolver = Resolver::start().map_err(OpenError::NotYet)?;
        let mut connector = HttpConnector::new_with_resolver(resolver);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let proxied = ProxyConnector::new(connector, proxy, version == Version::Two);
        let tls = match tls {
            Some(tls) => tls.read(),
            // Not used.
            None => ClientTls::nobody(),
        };
        let tls = tls.map_err(|error| OpenError::NotYet(io::Error::other(error)))?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connect = match version {
            Version::One => builder.enable_http1().wrap_connector(proxied.clone()),
            Version::Two => builder.enable_http2().wrap_connector(proxied.clone()),
        };
        let pool = Mutex::new((pool(&connect, version), Instant::now()));
        Ok(HttpClient { uri, connect, proxied, version, connection: options.connection, pool })
    }

    /// The connections, or new ones if these are old. Requests that are on their way keep theirs to their end.
    fn pool(&self) -> Pool {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.1.elapsed() >= self.connection {
            *pool = (self::pool(&self.connect, self.version), Instant::now());
        }
        pool.0.clone()
    }

    /// Sends a request. Returns the response once its head has arrived.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn request(&self, mut request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>> {
        let uri = request.uri().clone();
        self.proxied.authorize(&mut request);
        self.pool().request(request).await.map_err(|error| unreachable(&uri, &error))
    }
}

impl fmt::Display for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

fn pool(connect: &Connect, version: Version) -> Pool {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new());
    if version == Version::Two {
        builder.http2_only(true).timer(TokioTimer::new());
        builder.http2_keep_alive_interval(PROBE_INTERVAL).http2_keep_alive_timeout(PROBE_TIMEOUT);
    }
    builder.build(connect.clone())
}

/// Shows the innermost cause of the error, which says more than the error itself.
fn unreachable(uri: &Uri, error: &legacy::Error) -> io::Error {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let text = deepest.to_string();
    let remedy = if text.contains("InvalidContentType") {
        "; it does not speak TLS: write http:// (otlp+http://, otlp+grpc://)"
    } else if text.contains("CaUsedAsEndEntity") {
        "; the server presents a CA certificate as its own: give it a certificate with CA:FALSE"
    } else if text.contains("invalid peer certificate") {
        "; check tls_ca and the host's name"
    } else if text.contains("received fatal alert") {
        "; check tls_cert: the server does not accept this certificate"
    } else {
        ""
    };
    io::Error::other(format!("cannot post to {uri}: {text}{remedy}"))
}
