//! What the examples that run by `Group::run_tokio` share: the options, and what they say when they listen.

mod options;

use bbq_listen::{AsyncListener, Group};
pub(crate) use options::Options;

/// Announces the group when the first worker has its listener: by then SIGTERM and SIGINT end the run in order.
pub(crate) fn announced(group: &Group, listener: AsyncListener) -> AsyncListener {
    if listener.worker_listener().worker() == 0
        && let Err(error) = options::announce(group)
    {
        eprintln!("the standard output is closed: {error}");
    }
    listener
}
