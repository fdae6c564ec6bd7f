//! Requests over HTTP, told apart by their paths.

use crate::{elasticsearch, loki, splunk};

/// A request of another program's sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Of Loki.
    Loki(loki::Asked),
    /// Of Elasticsearch or OpenSearch.
    Elasticsearch(elasticsearch::Asked),
    /// Of Splunk's HTTP event collector.
    Splunk(splunk::Asked),
    /// Of Graylog.
    Gelf,
    /// Of systemd-journal-upload.
    Journal,
}

/// The path is known, and the method does not belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongMethod;

/// What a request is, by its path; `None` if it is of none of these senders.
///
/// # Errors
/// See [`WrongMethod`].
pub fn request(method: &str, path: &str) -> Result<Option<Request>, WrongMethod> {
    let is_question = matches!(method, "GET" | "HEAD");
    let is_post = method == "POST";
    let allowed = |is_allowed: bool, request| if is_allowed { Ok(Some(request)) } else { Err(WrongMethod) };
    let question = |request| Ok(is_question.then_some(request));
    match path {
        "/loki/api/v1/push" | "/api/prom/push" => allowed(is_post, Request::Loki(loki::Asked::Push)),
        "/ready" => question(Request::Loki(loki::Asked::Ready)),
        "/loki/api/v1/status/buildinfo" => question(Request::Loki(loki::Asked::Build)),
        "/gelf" => allowed(is_post, Request::Gelf),
        "/upload" => allowed(is_post, Request::Journal),
        "/" => question(Request::Elasticsearch(elasticsearch::Asked::Setup)),
        _ if path.starts_with("/services/collector") => match splunk::asked(path) {
            // The log driver of Docker asks so whether a collector is there.
            Some(_) if method == "OPTIONS" => Ok(Some(Request::Splunk(splunk::Asked::Health))),
            Some(splunk::Asked::Health) => question(Request::Splunk(splunk::Asked::Health)),
            Some(asked) => allowed(is_post, Request::Splunk(asked)),
            None => Ok(None),
        },
        _ => match elasticsearch::asked(path) {
            Some(asked @ elasticsearch::Asked::Bulk { .. }) => {
                allowed(is_post || method == "PUT", Request::Elasticsearch(asked))
            }
            Some(elasticsearch::Asked::Setup) if !is_question && !is_post && method != "PUT" => {
                Ok(Some(Request::Elasticsearch(elasticsearch::Asked::Search)))
            }
            asked => Ok(asked.map(Request::Elasticsearch)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_method_make_a_request() {
        use elasticsearch::Asked::{Bulk, Search, Setup};
        let elastic = |asked| Ok(Some(Request::Elasticsearch(asked)));
        for (method, path, expected) in [
            ("POST", "/loki/api/v1/push", Ok(Some(Request::Loki(loki::Asked::Push)))),
            ("GET", "/loki/api/v1/push", Err(WrongMethod)),
            ("GET", "/ready", Ok(Some(Request::Loki(loki::Asked::Ready)))),
            ("POST", "/ready", Ok(None)),
            ("POST", "/", Ok(None)),
            ("PUT", "/", Ok(None)),
            ("GET", "/", elastic(Setup)),
            ("HEAD", "/", elastic(Setup)),
            ("PUT", "/_bulk", elastic(Bulk { index: None })),
            ("GET", "/_bulk", Err(WrongMethod)),
            ("PUT", "/_template/a", elastic(Setup)),
            ("DELETE", "/_template/a", elastic(Search)),
            ("GET", "/logs/_search", elastic(Search)),
            ("POST", "/services/collector/raw/1.0", Ok(Some(Request::Splunk(splunk::Asked::Raw)))),
            ("GET", "/services/collector/raw", Err(WrongMethod)),
            ("GET", "/services/collector/health", Ok(Some(Request::Splunk(splunk::Asked::Health)))),
            ("OPTIONS", "/services/collector/event/1.0", Ok(Some(Request::Splunk(splunk::Asked::Health)))),
            ("POST", "/services/collector/other", Ok(None)),
            ("POST", "/gelf", Ok(Some(Request::Gelf))),
            ("PUT", "/gelf", Err(WrongMethod)),
            ("POST", "/upload", Ok(Some(Request::Journal))),
            ("GET", "/upload", Err(WrongMethod)),
            ("POST", "/nowhere", Ok(None)),
        ] {
            assert_eq!(request(method, path), expected, "{method} {path}");
        }
    }
}
