//! Connections for tonic's own server: a stream of them, and what a handler learns of its client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tonic::transport::server::{Connected, Router, TcpConnectInfo};

use crate::{AnyStream, AsyncAnyListener, AsyncListener, CountedStream};

impl AsyncListener {
    /// Serves `router` by tonic's own server, on tcp and on unix sockets. When the server stops, clients are told to open no more requests on
    /// connections that are open, once they have had time for a first request ([`stopped`](Self::stopped)), and requests in progress
    /// get their answers.
    ///
    /// For a router with layers call `router.serve_with_incoming_shutdown(listener.into_any(), stopped)`, with the future that
    /// `stopped` returned before.
    ///
    /// ```no_run
    /// # fn main() -> std::io::Result<()> {
    /// let (_reporter, health) = tonic_health::server::health_reporter();
    /// let router = tonic::transport::Server::builder().add_service(health);
    /// let group = bbq_listen::Group::at("127.0.0.1:50051")?.nodelay(true).open()?;
    /// group.run_tokio(|listener| listener.serve_tonic(router.clone()))
    /// # }
    /// ```
    pub fn serve_tonic(self, router: Router) -> impl IntoFuture<Output = io::Result<()>> {
        let stopped = self.stopped();
        serve(router, self.into_any(), stopped)
    }
}

#[cfg(feature = "rustls")]
impl crate::AsyncTlsListener {
    /// As [`AsyncListener::serve_tonic`], over TLS. The protocol of the `ServerConfig` has to be `h2` (`alpn_protocols`).
    pub fn serve_tonic(self, router: Router) -> impl IntoFuture<Output = io::Result<()>> {
        let stopped = self.stopped();
        serve(router, self, stopped)
    }
}

async fn serve<Incoming, Connection>(
    router: Router,
    incoming: Incoming,
    stopped: impl Future<Output = ()>,
) -> io::Result<()>
where
    Incoming: Stream<Item = io::Result<Connection>>,
    Connection: tokio::io::AsyncRead + tokio::io::AsyncWrite + Connected + Unpin + Send + 'static,
{
    router.serve_with_incoming_shutdown(incoming, stopped).await.map_err(io::Error::other)
}

/// For `serve_with_incoming` of tonic, and for whatever else takes connections as a stream. It never ends.
impl Stream for AsyncAnyListener {
    type Item = io::Result<CountedStream<AnyStream>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_accept(context).map(|accepted| Some(accepted.map(|(stream, _peer)| stream)))
    }
}

/// As that of [`AsyncAnyListener`].
#[cfg(feature = "rustls")]
impl Stream for crate::AsyncTlsListener {
    type Item = io::Result<crate::AsyncTlsStream>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_accept(context).map(|accepted| Some(accepted.map(|(stream, _peer)| stream)))
    }
}

/// As that of the stream.
impl<Counted: Connected> Connected for CountedStream<Counted> {
    type ConnectInfo = Counted::ConnectInfo;

    fn connect_info(&self) -> Counted::ConnectInfo {
        (**self).connect_info()
    }
}

/// A client of a unix socket has no addresses.
impl Connected for AnyStream {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        match self {
            AnyStream::Tcp(stream) => stream.connect_info(),
            AnyStream::Unix(_) => TcpConnectInfo { local_addr: None, remote_addr: None },
        }
    }
}
