//! Accepting, receiving and sending in bounded batches, for any event loop.

pub(crate) mod accept_delay;
pub(crate) mod accepted;
pub(crate) mod acceptor;
pub(crate) mod blocking;
pub(crate) mod counters;
pub(crate) mod receiver;
pub(crate) mod send_batch;
pub(crate) mod shortage;
