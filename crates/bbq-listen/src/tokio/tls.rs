//! Accepts connections whose TLS handshake is complete. Handshakes run beside each other, each as a task of its own.
//!
//! It reads no certificate: that is the `ServerConfig` of rustls.
//!
//! Invariant: at most `handshakes_max` handshakes run, and none takes longer than `handshake_timeout`. Further connections wait in the
//! kernel's queue.
//! Invariant: handshakes end with the listener.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::tokio::any_listener::{AnyStream, AsyncAnyListener};
use crate::tokio::counted_stream::CountedStream;
use crate::{AsyncListener, PeerAddress, WorkerListener};

/// How many handshakes of a worker run at a time by default. Each holds a descriptor and some ten kilobytes. At 100 ms each, which is a
/// handshake over a long way, a worker begins with 10,000 connections a second.
pub const TLS_HANDSHAKES_MAX_DEFAULT: usize = 1024;

/// How long a handshake may take by default: three retransmissions of a lost packet, and some round trips.
pub const TLS_HANDSHAKE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// A connection over TLS. `get_ref` of it returns the stream, and what rustls knows of the session.
pub type AsyncTlsStream = tokio_rustls::server::TlsStream<CountedStream<AnyStream>>;

/// Accepts the connections of one worker over TLS: [`AsyncListener::into_tls`].
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use axum::{Router, routing::get};
/// use bbq_listen::Group;
/// use tokio_rustls::rustls::ServerConfig;
/// use tokio_rustls::rustls::pki_types::pem::PemObject;
/// use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
///
/// let chain = CertificateDer::pem_file_iter("server.crt")?.collect::<Result<Vec<_>, _>>()?;
/// let key = PrivateKeyDer::from_pem_file("server.key")?;
/// let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?);
/// let app = Router::new().route("/", get(async || "hello\n"));
/// let group = Group::at("127.0.0.1:8443")?.open()?;
/// # #[cfg(feature = "axum")]
/// group.run_tokio(|listener| listener.into_tls(config.clone()).serve_axum(app.clone()))?;
/// # Ok(())
/// # }
/// ```
pub struct AsyncTlsListener {
    listener: AsyncAnyListener,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<Result<(AsyncTlsStream, PeerAddress), Failed>>,
    handshakes_max: usize,
    handshake_timeout: Duration,
    on_failure: Box<dyn FnMut(PeerAddress, io::Error) + Send>,
}

/// A handshake that was not completed.
struct Failed {
    peer: PeerAddress,
    error: io::Error,
}

impl AsyncListener {
    /// A listener for TLS, on tcp and on unix sockets. `config` says which certificates and protocols (ALPN) the server has.
    #[must_use]
    pub fn into_tls(self, config: Arc<ServerConfig>) -> AsyncTlsListener {
        AsyncTlsListener {
            listener: self.into_any(),
            acceptor: config.into(),
            handshakes: JoinSet::new(),
            handshakes_max: TLS_HANDSHAKES_MAX_DEFAULT,
            handshake_timeout: TLS_HANDSHAKE_TIMEOUT_DEFAULT,
            on_failure: Box::new(|_peer, _error| {}),
        }
    }
}

impl AsyncTlsListener {
    /// How many handshakes run at a time, at least 1; by default [`TLS_HANDSHAKES_MAX_DEFAULT`]. Further connections wait to be accepted.
    #[must_use]
    pub fn handshakes_max(self, max: usize) -> Self {
        Self { handshakes_max: max.max(1), ..self }
    }

    /// How long a handshake may take; by default [`TLS_HANDSHAKE_TIMEOUT_DEFAULT`].
    #[must_use]
    pub fn handshake_timeout(self, timeout: Duration) -> Self {
        Self { handshake_timeout: timeout, ..self }
    }

    /// Calls `tell` for each handshake that fails or takes too long ([`TimedOut`](io::ErrorKind::TimedOut)), on the worker's thread. Strangers
    /// cause such failures: limit how often they are logged.
    #[must_use]
    pub fn on_failure(self, tell: impl FnMut(PeerAddress, io::Error) + Send + 'static) -> Self {
        Self { on_failure: Box::new(tell), ..self }
    }

    /// The worker it accepts for.
    pub fn worker_listener(&self) -> &WorkerListener {
        self.listener.worker_listener()
    }

    /// Waits for a connection whose handshake is complete. Call it in a loop: handshakes begin only in this call.
    ///
    /// The future can be dropped at any time. While the server stops, connections are accepted as by [`AsyncListener::accept`].
    ///
    /// # Errors
    /// If another try cannot succeed. A handshake that fails is no error.
    pub async fn accept(&mut self) -> io::Result<(AsyncTlsStream, PeerAddress)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// [`accept`](Self::accept) as a poll.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(AsyncTlsStream, PeerAddress)>> {
        loop {
            while let Poll::Ready(Some(ended)) = self.handshakes.poll_join_next(context) {
                match ended {
                    Ok(Ok(connection)) => return Poll::Ready(Ok(connection)),
                    Ok(Err(Failed { peer, error })) => (self.on_failure)(peer, error),
                    // It panicked, or the runtime ends.
                    Err(error) => (self.on_failure)(PeerAddress(None), error.into()),
                }
            }
            if self.handshakes.len() >= self.handshakes_max {
                return Poll::Pending;
            }
            let (stream, peer) = ready!(self.listener.poll_accept(context))?;
            let handshake = timeout(self.handshake_timeout, self.acceptor.accept(stream));
            self.handshakes.spawn(async move {
                let completed = handshake.await.unwrap_or_else(|late| Err(late.into()));
                completed.map(|stream| (stream, peer)).map_err(|error| Failed { peer, error })
            });
        }
    }

    /// As [`AsyncListener::stopped`]. A connection counts as open from its first packet on, so the grace is also for handshakes.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.listener.stopped()
    }

    /// As [`AsyncListener::stopping`].
    pub fn stopping(&self) -> impl Fn() -> bool + Clone + Send + Sync + use<> {
        self.listener.stopping()
    }

    /// Ends the run of the worker with an error that the server cannot return.
    #[cfg(feature = "axum")]
    pub(crate) fn fail(&self, error: io::Error) {
        self.listener.fail(error);
    }
}

impl fmt::Debug for AsyncTlsListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncTlsListener")
            .field("listener", &self.listener)
            .field("handshakes", &self.handshakes.len())
            .field("handshakes_max", &self.handshakes_max)
            .field("handshake_timeout", &self.handshake_timeout)
            .finish_non_exhaustive()
    }
}
