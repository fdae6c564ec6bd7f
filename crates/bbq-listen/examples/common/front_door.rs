//! What the examples that run by `Group::run_tokio` share: the options, and what they say when they listen.

mod options;

use bbq_listen::{AsyncListener, Group, WorkerListener};
pub(crate) use options::Options;

/// Announces the group when the first worker has its listener: by then SIGTERM and SIGINT end the run in order.
pub(crate) fn announced(group: &Group, listener: AsyncListener) -> AsyncListener {
    announce_once(group, listener.worker_listener());
    listener
}

/// As [`announced`], for what else a worker listens with.
pub(crate) fn announce_once(group: &Group, worker_listener: &WorkerListener) {
    if worker_listener.worker() == 0
        && let Err(error) = options::announce(group)
    {
        eprintln!("the standard output is closed: {error}");
    }
}
