//! An endpoint of quinn for a worker. The first byte of its connection ids is the number of the worker.

use std::{io, os::fd::AsFd, sync::Arc, time::Duration};

use bbq_listen::AsyncDatagrams;
use quinn::{ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};

const ID_BYTES: usize = 8;

/// The endpoint on the socket of a worker, and the number of the worker.
pub(crate) fn endpoint(datagrams: &AsyncDatagrams, config: ServerConfig) -> io::Result<(Endpoint, u8)> {
    let listener = datagrams.worker_listener();
    let worker = u8::try_from(listener.worker()).map_err(io::Error::other)?;
    let mut options = EndpointConfig::default();
    options.cid_generator(move || Box::new(Ids(worker)));
    let socket = listener.socket().as_fd().try_clone_to_owned()?.into();
    Ok((Endpoint::new(options, Some(config), socket, Arc::new(TokioRuntime))?, worker))
}

/// Ids of the worker with this number.
struct Ids(u8);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [self.0; ID_BYTES];
        // Without random numbers TLS has failed before.
        let _filled = getrandom::fill(&mut id[1..]);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
