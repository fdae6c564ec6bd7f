//! Whether the sender of a request is allowed to send.

use hyper::HeaderMap;

use super::refused::Refused;
use crate::access::bearer;
use crate::worker::local_listener::LocalListener;

/// Refuses a request without a token from the listener's file. Called before the body of the request is read.
pub(super) fn authorized(listener: &LocalListener, headers: &HeaderMap) -> Result<(), Refused> {
    let Some(tokens) = &listener.tokens else { return Ok(()) };
    tokens.check(bearer(headers)).map(drop).map_err(Refused::Token)
}
