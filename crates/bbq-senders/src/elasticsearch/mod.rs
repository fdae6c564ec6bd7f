//! The parts of the interface of Elasticsearch and OpenSearch that programs need which write documents: `_bulk`, and what they ask for before.
//!
//! A document is a message, as it came; `_index` and `_id` are fields of the message.
//!
//! Not here: search. What is asked for documents gets an error that says so.

mod answers;
mod bulk;
mod items;
mod setup;

pub use answers::{no_search, refused};
pub use bulk::{Bulk, BulkDefaults, BulkError, bulk};
pub use setup::setup;

/// Every answer has it: the clients of Elasticsearch refuse to go on without it.
const PRODUCT: &[(&str, &str)] = &[("x-elastic-product", "Elasticsearch")];
/// The last version with this interface that senders of version 8 and older ones take.
const VERSION: &str = "8.19.0";

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To store documents, in this index unless they name another one.
    Bulk {
        /// See above.
        index: Option<String>,
    },
    /// What programs ask, or set up, before they send.
    Setup,
    /// What a queue cannot do.
    Search,
}

/// The interfaces that are set up before documents come, each by its first word.
const SETUP: [&str; 12] = [
    "_license",
    "_xpack",
    "_cluster",
    "_nodes",
    "_template",
    "_index_template",
    "_component_template",
    "_ilm",
    "_plugins",
    "_ingest",
    "_data_stream",
    "_alias",
];

/// What a path asks for, if it is one of Elasticsearch: its words begin with `_`.
#[must_use]
pub(crate) fn asked(path: &str) -> Option<Asked> {
    let mut words = path.trim_matches('/').split('/');
    let first = words.next()?;
    let rest: Vec<&str> = words.take(4).collect();
    match (first, rest.as_slice()) {
        ("_bulk", []) => Some(Asked::Bulk { index: None }),
        // Earlier versions had types of documents.
        (index, ["_bulk"] | [_, "_bulk"]) if !index.starts_with('_') => {
            Some(Asked::Bulk { index: Some(crate::url::decoded(index)) })
        }
        (word, _) if SETUP.contains(&word) => Some(Asked::Setup),
        (word, _) if word.starts_with('_') => Some(Asked::Search),
        (_, [word, ..]) if word.starts_with('_') => Some(Asked::Search),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_elasticsearch_have_words_with_an_underscore() {
        let bulk = |index: Option<&str>| Some(Asked::Bulk { index: index.map(str::to_owned) });
        for (path, expected) in [
            ("/_bulk", bulk(None)),
            ("/_bulk/", bulk(None)),
            ("/logs-app/_bulk", bulk(Some("logs-app"))),
            ("/%3Clogs-%7Bnow%7D%3E/_bulk", bulk(Some("<logs-{now}>"))),
            ("/logs/doc/_bulk", bulk(Some("logs"))),
            ("/_license", Some(Asked::Setup)),
            ("/_ilm/policy/filebeat", Some(Asked::Setup)),
            ("/_nodes/_all/http", Some(Asked::Setup)),
            ("/_search", Some(Asked::Search)),
            ("/logs/_search", Some(Asked::Search)),
            ("/logs/_doc/1", Some(Asked::Search)),
            ("/_other/_bulk", Some(Asked::Search)),
            ("/logs", None),
            ("/a/b/_c", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(asked(path), expected, "{path}");
        }
    }
}
