//! How object_store reaches a server: by the HTTP client and the TLS of bbq's other sinks, so that the system's resolver holds up nobody
//! and `tls_ca` is the same as everywhere.

use std::pin::Pin;

use bbq_sink::{Proxy, ProxyConnector, Resolver};
use http_body_util::BodyExt as _;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::ClientConfig;

use super::store::CONNECT_TIMEOUT;

type Hyper = Client<HttpsConnector<ProxyConnector>, HttpRequestBody>;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Connector(Hyper, ProxyConnector);

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: ClientConfig, proxy: &Proxy) -> Connector {
        let mut tcp = TcpConnector::new_with_resolver(resolver);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let proxied = ProxyConnector::new(tcp, proxy, false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(proxied.clone());
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Connector(client, proxied)
    }
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
        self.1.authorize(&mut request);
        Box::pin(async move {
            let response = self.0.request(request).await.map_err(|error| {
                let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
                HttpError::new(kind, error)
            })?;
            let body_failed = |error| HttpError::new(HttpErrorKind::Interrupted, error);
            Ok(response.map(|body| HttpResponseBody::new(body.map_err(body_failed))))
        })
    }
}
