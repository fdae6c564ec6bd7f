//! Resolves the host name of a sink's destination, on a thread of its own.
//!
//! The system's resolver (getaddrinfo) may take long. tokio would start a thread when one is needed, and panic if the system
//! cannot start it. This thread starts and ends with the sink. If it cannot be started, opening the sink is tried again.
//!
//! Invariant: nothing waits for the end of the thread. After its sink is closed, the thread ends once the present name is
//! resolved.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::task::{Context, Poll};
use std::thread;
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::oneshot;
use tower_service::Service;

/// Most names that wait: one for each request that an `http:` sink has on its way, and as many for requests that were given up
/// meanwhile.
const LOOKUPS_MAX: usize = 32;

type Addresses = vec::IntoIter<SocketAddr>;

/// A name, and the request that waits for its addresses.
struct Lookup {
    name: String,
    reply: oneshot::Sender<io::Result<Addresses>>,
}

/// See the module.
#[derive(Clone)]
pub struct Resolver {
    lookups: SyncSender<Lookup>,
}

impl Resolver {
    /// Makes the thread.
    ///
    /// # Errors
    /// The system cannot start a thread; try again.
    pub fn start() -> io::Result<Resolver> {
        let (lookups, queued) = mpsc::sync_channel(LOOKUPS_MAX);
        let thread = thread::Builder::new().name("sink-resolve".to_owned());
        thread.spawn(move || work(&queued)).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start the thread that resolves host names: {error}"))
        })?;
        Ok(Resolver { lookups })
    }

    /// Returns the addresses of a host, with port 0.
    ///
    /// # Errors
    /// Those of getaddrinfo(3), and an error if too many names wait.
    pub fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Addresses>> + Send + use<> {
        let (reply, addresses) = oneshot::channel();
        let sent = self.lookups.try_send(Lookup { name: name.to_owned(), reply });
        async move {
            let ended = || io::Error::other("the thread that resolves host names has ended");
            sent.map_err(|error| match error {
                TrySendError::Full(_) => io::Error::other("the system takes long to resolve host names"),
                TrySendError::Disconnected(_) => ended(),
            })?;
            addresses.await.map_err(|_| ended())?
        }
    }
}

fn work(queued: &Receiver<Lookup>) {
    while let Ok(Lookup { name, reply }) = queued.recv() {
        // The request may have been given up while another name was resolved.
        if !reply.is_closed() {
            // The caller sets the port.
            let _given_up = reply.send((name.as_str(), 0).to_socket_addrs());
        }
    }
}

impl Service<Name> for Resolver {
    type Response = Addresses;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Addresses>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.resolve(name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_resolved_and_errors_returned() {
        let resolver = Resolver::start().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let addresses = runtime.block_on(resolver.resolve("localhost")).unwrap();
        assert!(addresses.into_iter().any(|address| address.ip().is_loopback()));
        let longer_than_a_name = "x".repeat(300);
        assert!(runtime.block_on(resolver.resolve(&longer_than_a_name)).is_err());
    }
}
