//! How object_store reaches a server: by the HTTP client and the TLS of bbq's other sinks, so that the system's resolver holds up nobody
//! and `tls_ca` is the same as everywhere.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bbq_sink::{Proxy, ProxyConnector, Resolver};
use hyper::Request;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use rustls::ClientConfig;

use super::store::CONNECT_TIMEOUT;
use super::uploads::{Download, Patience, SLICE_BYTES, Upload, Uploads};

/// After this time connections are replaced, for which the server's name is resolved again: as those of the kinds that make requests by
/// default (`connection_seconds_max`).
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(300);

type Connect = HttpsConnector<ProxyConnector>;
type Hyper = Client<Connect, Upload>;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    connect: Connect,
    proxied: ProxyConnector,
    patience: Patience,
    age_max: Duration,
    uploads: Arc<Uploads>,
    /// The connections, and since when there are some.
    pool: Arc<Mutex<(Hyper, Instant)>>,
}

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: ClientConfig, proxy: &Proxy) -> Connector {
        let mut tcp = TcpConnector::new_with_resolver(resolver);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let proxied = ProxyConnector::new(tcp, proxy, false);
        let connect = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(proxied.clone());
        let pool = Arc::new(Mutex::new((pool(&connect), Instant::now())));
        let (patience, age_max) = (Patience::DEFAULT, CONNECTION_AGE_MAX);
        Connector { connect, proxied, patience, age_max, uploads: Arc::new(Uploads::new()), pool }
    }

    /// The uploads of all requests by this connector.
    pub(super) fn uploads(&self) -> Arc<Uploads> {
        Arc::clone(&self.uploads)
    }

    /// The connections, or new ones if these are old. Requests that are on their way keep theirs to their end.
    fn pool(&self) -> Hyper {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.1.elapsed() >= self.age_max {
            *pool = (self::pool(&self.connect), Instant::now());
        }
        pool.0.clone()
    }
}

fn pool(connect: &Connect) -> Hyper {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new());
    // A slice is handed over when the one before it is with the operating system. By default, hyper asks for 400 KiB ahead.
    builder.http1_max_buf_size(SLICE_BYTES);
    builder.build(connect.clone())
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Connector {
    fn call<'a, 'b>(
        &'a self,
        mut request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        self.proxied.authorize(&mut request);
        let (pool, uploads, patience) = (self.pool(), self.uploads(), self.patience);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let send = |body| pool.request(Request::from_parts(parts, body));
            let response = Upload::send(body, uploads, patience, send).await?.map_err(|error| {
                let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
                HttpError::new(kind, error)
            })?;
            Ok(response.map(|body| HttpResponseBody::new(Download::new(body, patience))))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use object_store::client::HttpRequestBody;
    use tokio::runtime::Builder;

    use super::super::test_server::{TestServer, connector};
    use super::super::uploads::sliced;
    use super::*;

    /// More than the kernel holds back of a connection on this machine, at both ends.
    const BODY_BYTES: usize = 24 * 1024 * 1024;
    const PATIENCE: Patience =
        Patience { silence: Duration::from_millis(1500), held_back_bytes_per_second: 4 * 1024 * 1024 };
    const RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";

    /// Sends a body to a server that takes so many bytes of it, some at a time, and then writes `response`. Returns the body of that.
    fn put(takes: usize, response: &'static str) -> Result<usize, HttpError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut piece, mut taken) = (vec![0; 512 * 1024], 0);
            while taken < takes {
                std::thread::park_timeout(Duration::from_millis(50));
                if stream.read_exact(&mut piece).is_err() {
                    return;
                }
                taken += piece.len();
            }
            stream.write_all(response.as_bytes()).unwrap();
            // The connection stays open until the client closes it.
            while takes >= BODY_BYTES && stream.read(&mut piece).is_ok_and(|read| read > 0) {}
            std::thread::park_timeout(Duration::from_secs(10));
        });
        let body: HttpRequestBody = sliced(vec![7; BODY_BYTES].into()).into();
        let request = Request::put(format!("http://{address}/")).body(body).unwrap();
        let connector = Connector { patience: PATIENCE, ..connector() };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let response = connector.call(request).await?;
            response.into_body().bytes().await.map(|bytes| bytes.len())
        })
    }

    #[test]
    fn a_slow_server_gets_all_and_one_that_stands_still_is_given_up() {
        let begin = Instant::now();
        let ok = format!("{RESPONSE}ok").leak();
        assert_eq!(put(BODY_BYTES, ok).unwrap(), 2);
        assert!(begin.elapsed() > PATIENCE.silence, "{:?} is no slow server", begin.elapsed());
        let error = put(1024 * 1024, "").unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("took no more of the object"), "{error}");
    }

    #[test]
    fn a_response_that_does_not_end_is_given_up() {
        let error = put(BODY_BYTES, RESPONSE).unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("did not end within"), "{error}");
    }

    #[test]
    fn old_connections_are_replaced() {
        for (age_max, connections) in [(Duration::ZERO, 3), (CONNECTION_AGE_MAX, 1)] {
            let server = TestServer::start();
            let connector = Connector { age_max, ..connector() };
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            for _ in 0..3 {
                let url = format!("http://127.0.0.1:{}/", server.port);
                let request = Request::get(url).body(HttpRequestBody::empty()).unwrap();
                runtime.block_on(async {
                    let response = connector.call(request).await.unwrap();
                    response.into_body().bytes().await.unwrap();
                    // The connection goes back to its pool.
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                });
            }
            assert_eq!(server.connections(), connections, "{age_max:?}");
        }
    }
}
