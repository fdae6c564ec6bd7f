//! A listener for `axum::serve`.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{UnixStream, unix};

use crate::tokio::closing::Closing;
use crate::{AnyStream, AsyncAnyListener, AsyncListener, AsyncUnixListener, CountedStream, PeerAddress};

impl AsyncListener {
    /// Serves `app` by `axum::serve`, on tcp and on unix sockets. When the server stops, connections that are idle are closed, once clients
    /// have had time for a first request ([`stopped`](Self::stopped)), and requests in progress get their answers. As soon as the server
    /// is told to stop, answers of HTTP/1.1 say that their connection closes: so a client that asks one request after the other loses none.
    ///
    /// For services of other types call `axum::serve(listener, service).with_graceful_shutdown(stopped)`, with the future that
    /// `stopped` returned before. A server without `with_graceful_shutdown` waits for idle connections, too: each stop takes as
    /// long as it may.
    ///
    /// ```no_run
    /// # fn main() -> std::io::Result<()> {
    /// use axum::{Router, routing::get};
    ///
    /// let app = Router::new().route("/", get(async || "hello\n"));
    /// let group = bbq_listen::Group::at("127.0.0.1:8080")?.open()?;
    /// group.run_tokio(|listener| listener.serve_axum(app.clone()))
    /// # }
    /// ```
    pub fn serve_axum(self, app: Router) -> impl IntoFuture<Output = io::Result<()>> {
        let (stopped, stopping) = (self.stopped(), self.stopping());
        axum::serve(self.into_any(), Closing::new(app, stopping)).with_graceful_shutdown(stopped)
    }
}

/// A handler gets the client's address by
/// `into_make_service_with_connect_info::<PeerAddress>()`. For axum's own `ConnectInfo<SocketAddr>` serve
/// `listener.tap_io(|_stream| {})`, by `axum::serve::ListenerExt`.
impl Listener for AsyncListener {
    type Io = CountedStream;
    type Addr = SocketAddr;

    /// After an error that no retry helps it waits forever, and the run of the worker ends with that error.
    async fn accept(&mut self) -> (CountedStream, SocketAddr) {
        match AsyncListener::accept(self).await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.fail(error);
                pending().await
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        AsyncListener::local_addr(self)
    }
}

/// For unix sockets: `async |listener| axum::serve(listener.into_unix()?, app()).await`.
impl Listener for AsyncUnixListener {
    type Io = CountedStream<UnixStream>;
    type Addr = unix::SocketAddr;

    /// As that of [`AsyncListener`].
    async fn accept(&mut self) -> (CountedStream<UnixStream>, unix::SocketAddr) {
        match AsyncUnixListener::accept(self).await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.fail(error);
                pending().await
            }
        }
    }

    fn local_addr(&self) -> io::Result<unix::SocketAddr> {
        let address = self.worker_listener().address();
        let address = match (address.abstract_name(), address.unix_path()) {
            (Some(name), _) => std::os::unix::net::SocketAddr::from_abstract_name(name),
            (None, Some(path)) => std::os::unix::net::SocketAddr::from_pathname(path),
            // A group of unix sockets has one of them.
            (None, None) => Err(io::ErrorKind::Unsupported.into()),
        };
        address.map(unix::SocketAddr::from)
    }
}

/// For tcp and unix sockets alike: `axum::serve(listener.into_any(), app())`. The address of a client of a unix socket is unknown.
impl Listener for AsyncAnyListener {
    type Io = CountedStream<AnyStream>;
    type Addr = PeerAddress;

    /// As that of [`AsyncListener`].
    async fn accept(&mut self) -> (CountedStream<AnyStream>, PeerAddress) {
        match AsyncAnyListener::accept(self).await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.fail(error);
                pending().await
            }
        }
    }

    fn local_addr(&self) -> io::Result<PeerAddress> {
        Ok(PeerAddress(self.worker_listener().address().socket_address()))
    }
}

#[cfg(feature = "rustls")]
impl crate::AsyncTlsListener {
    /// As [`AsyncListener::serve_axum`], over TLS.
    pub fn serve_axum(self, app: Router) -> impl IntoFuture<Output = io::Result<()>> {
        let (stopped, stopping) = (self.stopped(), self.stopping());
        axum::serve(self, Closing::new(app, stopping)).with_graceful_shutdown(stopped)
    }
}

/// As that of [`AsyncAnyListener`], over TLS.
#[cfg(feature = "rustls")]
impl Listener for crate::AsyncTlsListener {
    type Io = crate::AsyncTlsStream;
    type Addr = PeerAddress;

    /// As that of [`AsyncListener`].
    async fn accept(&mut self) -> (crate::AsyncTlsStream, PeerAddress) {
        match crate::AsyncTlsListener::accept(self).await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.fail(error);
                pending().await
            }
        }
    }

    fn local_addr(&self) -> io::Result<PeerAddress> {
        Ok(PeerAddress(self.worker_listener().address().socket_address()))
    }
}

#[cfg(feature = "rustls")]
impl Connected<IncomingStream<'_, crate::AsyncTlsListener>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, crate::AsyncTlsListener>) -> Self {
        *stream.remote_addr()
    }
}

impl Connected<IncomingStream<'_, AsyncAnyListener>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, AsyncAnyListener>) -> Self {
        *stream.remote_addr()
    }
}

impl Connected<IncomingStream<'_, AsyncListener>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, AsyncListener>) -> Self {
        PeerAddress(Some(*stream.remote_addr()))
    }
}
