//! Parts of the URL of a request.

/// A part of a path without its percent signs.
pub(crate) fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// The value of a parameter of a query.
#[must_use]
pub fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.into_iter().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_parameters() {
        assert_eq!(parameter("a=1&channel=x%20y+z&channel=2", "channel").as_deref(), Some("x y z"));
        assert_eq!(parameter("", "channel"), None);
    }
}
