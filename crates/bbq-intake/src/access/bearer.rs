//! The token of a request: the header `Authorization: Bearer TOKEN` (RFC 6750, section 2.1).

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

/// The token of the first `Authorization` header.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then_some(token.trim())
}
