//! A proxy between a sink and its server: the option `proxy`, or the variables that curl and others read.
//!
//! By TLS and HTTP/2 the proxy makes a tunnel (CONNECT, RFC 9110 section 9.3.6). Without them it gets the whole URL of each request.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bbq_spec::{ConfigError, Query, SpecOption, Values, has_user};
use hyper::header::HeaderValue;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::resolver::Resolver;

/// A proxy that does not answer in this time is down, as is a server that does not accept a connection.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(10);
/// The first 32 bits of the addresses at which Amazon tells a machine, and a container, its role.
const AWS_METADATA: [u16; 2] = [0xfd00, 0x0ec2];
/// The name of the server from which Google tells a machine its account.
const GOOGLE_METADATA: &str = "metadata.google.internal";

/// The option.
pub const PROXY: SpecOption = SpecOption {
    key: "proxy",
    values: Values::Text { form: "http://HOST:PORT", pattern: "" },
    default: "https_proxy, http_proxy and no_proxy",
    meaning: "the proxy on the way to the server; `off` uses none, even if the environment has the variables",
};

/// See the module.
#[derive(Clone, Debug, Default)]
pub enum Proxy {
    /// The one that the environment names.
    #[default]
    OfEnvironment,
    /// None.
    Off,
    /// This one.
    At(Uri),
}

impl Proxy {
    /// Takes the option. `shown` is the SPEC for errors.
    ///
    /// # Errors
    /// It is not the URL of a proxy.
    pub fn take(shown: &str, query: &mut Query<'_>) -> Result<Proxy, ConfigError> {
        let taken = query.take(PROXY.key, |text| match text {
            "off" => Ok(Proxy::Off),
            text if has_user(text) => {
                Err("a password would be visible here; set https_proxy=http://USER:PASSWORD@HOST:PORT in the environment instead"
                    .to_owned())
            }
            text => url(text).map(Proxy::At),
        });
        taken.map(Option::unwrap_or_default).map_err(|error| ConfigError::new(format!("{shown:?}: {error}")))
    }

    fn matcher(&self) -> Matcher {
        match self {
            Proxy::OfEnvironment => Matcher::from_env(),
            Proxy::Off => Matcher::builder().build(),
            Proxy::At(uri) => Matcher::builder().all(uri.to_string()).build(),
        }
    }
}

fn url(text: &str) -> Result<Uri, String> {
    let wrong = || format!("{text:?} is no proxy; write http://HOST:PORT, or off");
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none() && uri.host().is_some();
    if is_bare && uri.scheme_str() == Some("http") { Ok(uri) } else { Err(wrong()) }
}

/// Connects to a server, or to the proxy on the way to it.
#[derive(Clone)]
pub struct ProxyConnector {
    tcp: HttpConnector<Resolver>,
    proxy: Proxy,
    matcher: Arc<Matcher>,
    /// Also for requests without TLS.
    has_tunnels: bool,
}

impl ProxyConnector {
    /// With `has_tunnels`, also requests without TLS go through a tunnel: those by HTTP/2 have no other way.
    pub fn new(tcp: HttpConnector<Resolver>, proxy: &Proxy, has_tunnels: bool) -> ProxyConnector {
        let (proxy, matcher) = (proxy.clone(), Arc::new(proxy.matcher()));
        ProxyConnector { tcp, proxy, matcher, has_tunnels }
    }

    /// The proxy for a server. One on this machine has none, unless the option names it.
    fn intercept(&self, server: &Uri) -> Option<Intercept> {
        let has_none = match near(server) {
            Some(Near::Machine) => matches!(self.proxy, Proxy::OfEnvironment),
            Some(Near::Metadata) => true,
            None => false,
        };
        if has_none { None } else { self.matcher.intercept(server) }
    }

    /// For people. That of the environment may have a password, which is not always where hyper-util looks for it.
    fn shown(&self) -> String {
        match &self.proxy {
            Proxy::At(uri) => format!("the proxy {uri}"),
            _ => "the proxy of the environment (https_proxy, http_proxy, all_proxy)".to_owned(),
        }
    }

    fn needs_tunnel(&self, server: &Uri) -> bool {
        self.has_tunnels || server.scheme_str() == Some("https")
    }

    /// Adds what a proxy wants to know, if it gets the request itself.
    pub fn authorize<B>(&self, request: &mut Request<B>) {
        let proxy = (!self.needs_tunnel(request.uri())).then(|| self.intercept(request.uri())).flatten();
        if let Some(value) = proxy.and_then(|proxy| proxy.basic_auth().cloned()) {
            request.headers_mut().insert(hyper::header::PROXY_AUTHORIZATION, sensitive(value));
        }
    }
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// A server that no proxy reaches better.
#[derive(Debug, PartialEq, Eq)]
enum Near {
    Machine,
    /// Addresses from which clouds tell a machine its role and keys, in plain text.
    Metadata,
}

fn near(server: &Uri) -> Option<Near> {
    let host = server.host().unwrap_or_default();
    if host.eq_ignore_ascii_case("localhost") {
        return Some(Near::Machine);
    }
    if host.eq_ignore_ascii_case(GOOGLE_METADATA) {
        return Some(Near::Metadata);
    }
    let address: IpAddr = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    match address.to_canonical() {
        address if address.is_loopback() => Some(Near::Machine),
        IpAddr::V4(address) if address.is_link_local() => Some(Near::Metadata),
        IpAddr::V6(address) if address.segments()[..2] == AWS_METADATA => Some(Near::Metadata),
        _ => None,
    }
}

/// `http:` without a port, of which a tunnel thinks that it is that of TLS.
fn with_port(server: Uri) -> Uri {
    let Some(host) = server.host().filter(|_| server.port().is_none() && server.scheme_str() == Some("http"))
    else {
        return server;
    };
    format!("http://{host}:80").parse().unwrap_or(server)
}

impl fmt::Debug for ProxyConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyConnector").field("proxy", &self.proxy).finish_non_exhaustive()
    }
}

impl Service<Uri> for ProxyConnector {
    type Response = ProxiedStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<ProxiedStream>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_ready(context).map_err(io::Error::other)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let mut tcp = self.tcp.clone();
        let Some(proxy) = self.intercept(&server) else {
            return Box::pin(async move {
                let stream = tcp.call(server).await.map_err(io::Error::other)?;
                Ok(ProxiedStream { stream, is_proxied: false })
            });
        };
        let (needs_tunnel, shown) = (self.needs_tunnel(&server), self.shown());
        Box::pin(async move {
            let at = proxy.uri().clone();
            if at.scheme_str() != Some("http") {
                return Err(io::Error::other(format!(
                    "{shown} is not an http:// proxy, the only kind that bbq supports; proxy=off connects without it"
                )));
            }
            let failed =
                |error: &(dyn Error + 'static)| io::Error::other(format!("by {shown}: {}", deepest(error)));
            let stream = if needs_tunnel {
                let mut tunnel = Tunnel::new(at.clone(), tcp);
                if let Some(value) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(value.clone());
                }
                let made = tokio::time::timeout(TUNNEL_TIMEOUT, tunnel.call(with_port(server))).await;
                let seconds = TUNNEL_TIMEOUT.as_secs();
                let late = |_| io::Error::other(format!("{shown} did not open a tunnel within {seconds} s"));
                made.map_err(late)?.map_err(|error| failed(&error))?
            } else {
                tcp.call(at.clone()).await.map_err(|error| failed(&error))?
            };
            Ok(ProxiedStream { stream, is_proxied: !needs_tunnel })
        })
    }
}

/// The innermost cause says more than the error itself.
fn deepest(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A connection, which knows whether a proxy reads the requests.
pub struct ProxiedStream {
    stream: TokioIo<TcpStream>,
    is_proxied: bool,
}

impl Connection for ProxiedStream {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_proxied)
    }
}

impl Read for ProxiedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for ProxiedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_url_without_a_path_and_without_a_password() {
        assert!(url("http://proxy.example:3128").is_ok() && url("http://[2001:db8::1]:3128/").is_ok());
        for wrong in
            ["proxy.example", "socks5://proxy:1080", "https://proxy", "http://proxy/x", "http://proxy/?a=b"]
        {
            assert!(url(wrong).unwrap_err().contains("write http://HOST:PORT, or off"), "{wrong}");
        }
    }

    #[test]
    fn this_machine_and_the_metadata_of_a_cloud_are_near() {
        let near = |text: &str| near(&text.parse().unwrap());
        for machine in ["http://LocalHost:1/", "https://127.0.0.1/", "http://[::1]:9200/x"] {
            assert_eq!(near(machine), Some(Near::Machine), "{machine}");
        }
        for metadata in [
            "http://169.254.169.254/latest",
            "http://[fd00:ec2::254]/latest",
            "http://metadata.google.internal/computeMetadata",
        ] {
            assert_eq!(near(metadata), Some(Near::Metadata), "{metadata}");
        }
        for far in [
            "http://logs.example/",
            "http://10.0.0.1:9428/",
            "https://localhost.example/",
            "http://[fd00::1]/",
        ] {
            assert_eq!(near(far), None, "{far}");
        }
    }

    #[test]
    fn a_tunnel_leads_to_the_port_of_the_server() {
        let to = |text: &str| with_port(text.parse().unwrap()).to_string();
        assert_eq!(to("http://collector.example/x"), "http://collector.example:80/");
        assert_eq!(to("http://[2001:db8::1]/"), "http://[2001:db8::1]:80/");
        assert_eq!(to("http://collector.example:4317/"), "http://collector.example:4317/");
        assert_eq!(to("https://collector.example/"), "https://collector.example/");
    }
}
