//! A listener for `axum::serve`.

use std::future::pending;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{UnixStream, unix};

use crate::{AsyncListener, AsyncUnixListener, CountedStream, PeerAddress};

impl AsyncListener {
    /// Serves `app` by `axum::serve`. When the server stops, connections that are idle are closed, once clients have had time for a
    /// first request ([`stopped`](Self::stopped)), and requests in progress get their answers.
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
    /// let group = bbq_listen::Group::bind("127.0.0.1:8080")?.open()?;
    /// group.run_tokio(|listener| listener.serve_axum(app.clone()))
    /// # }
    /// ```
    pub fn serve_axum(self, app: Router) -> impl IntoFuture<Output = io::Result<()>> {
        let stopped = self.stopped();
        axum::serve(self, app).with_graceful_shutdown(stopped)
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
        let path = self.worker_listener().address().unix_path();
        let address = path.map(std::os::unix::net::SocketAddr::from_pathname);
        // A group of unix sockets has a path.
        address.unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into())).map(unix::SocketAddr::from)
    }
}

impl Connected<IncomingStream<'_, AsyncListener>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, AsyncListener>) -> Self {
        PeerAddress(Some(*stream.remote_addr()))
    }
}
