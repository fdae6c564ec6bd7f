//! Whether the sender of a request is allowed to send.

use std::sync::Arc;

use hyper::HeaderMap;

use super::refused::Refused;
use crate::access::{Admission, Credentials, Denied, credentials};
use crate::worker::local_listener::LocalListener;

/// Refuses a request without a token from the listener's file, and returns whose token it is; `None` if the listener asks for none.
/// Called before the body of the request is read.
pub(super) fn authorized(
    listener: &LocalListener,
    headers: &HeaderMap,
) -> Result<Option<Arc<Admission>>, Refused> {
    let Some(tokens) = &listener.tokens else { return Ok(None) };
    let (token, other) = match credentials(headers) {
        Credentials::Missing => return Err(Refused::Token(Denied::Missing)),
        Credentials::Unknown => return Err(Refused::Scheme),
        Credentials::Token(token, other) => (token, other),
    };
    let checked = tokens.check(Some(&token));
    let checked = match other {
        Some(other) if checked.is_err() => tokens.check(Some(&other)),
        _ => checked,
    };
    checked.map(Some).map_err(Refused::Token)
}
