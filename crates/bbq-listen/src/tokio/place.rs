//! Where a worker of `Group::run_tokio` looks for what has come.

use std::io;
use std::task::{Context, Poll};

use crate::tokio::ending::Ending;
use crate::tokio::readiness::{Readiness, Ready};

/// Where to look.
pub(crate) enum Place<'a> {
    Ready(Ready<'a>),
    /// The server stops: everywhere.
    FinalPoll,
}

/// Waits until there is something to look for. Once the server's stop has closed the listener, it is pending forever.
pub(crate) fn poll_place<'a>(
    readiness: &'a Readiness,
    ending: &mut Option<Ending>,
    context: &mut Context<'_>,
) -> Poll<io::Result<Place<'a>>> {
    if ending.as_ref().is_some_and(Ending::is_closed) {
        return Poll::Pending;
    }
    if let Poll::Ready(ready) = readiness.poll_ready(context) {
        return Poll::Ready(ready.map(Place::Ready));
    }
    match ending {
        Some(ending) => ending.poll_final(context).map(|()| Ok(Place::FinalPoll)),
        None => Poll::Pending,
    }
}
