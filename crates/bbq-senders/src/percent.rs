//! Paths without their percent signs (RFC 3986 section 2.1).

/// A part of a path without its percent signs.
pub(crate) fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}
