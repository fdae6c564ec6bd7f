//! Whether the sender of a request is allowed to send.

use std::sync::Arc;

use hyper::HeaderMap;

use super::refused::Refused;
use crate::access::{Admission, bearer};
use crate::worker::local_listener::LocalListener;

/// Refuses a request without a token from the listener's file, and returns whose token it is; `None` if the listener asks for none.
/// Called before the body of the request is read.
pub(super) fn authorized(
    listener: &LocalListener,
    headers: &HeaderMap,
) -> Result<Option<Arc<Admission>>, Refused> {
    let Some(tokens) = &listener.tokens else { return Ok(None) };
    tokens.check(bearer(headers)).map(Some).map_err(Refused::Token)
}
