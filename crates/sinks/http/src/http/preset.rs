//! What a server with an interface of its own wants to be sent, and what its responses mean.
//!
//! ```text
//! ndjson         a message on each line; 2xx: it has all
//! clickhouse     the same, with a token in the URL that is the same each time, so what comes twice is there once
//! elasticsearch  _bulk: `create` with an id that is the same each time, so what comes twice is there once; a 200 says for each message
//!                whether it was taken
//! loki           an object around all entries; 2xx: it has all
//! splunk         an event after the other; 2xx: it has all
//! ```

use bbq_format::{Content, Envelope, Format, LABEL_VALUES, Labels};
use bbq_sink::Verdict;
use bbq_spec::{SpecOption, Values};
use hyper::header::HeaderValue;
use serde::Deserialize;

/// An interface of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Preset {
    #[default]
    Ndjson,
    Clickhouse,
    Elasticsearch,
    Loki,
    Splunk,
}

pub(super) const WORDS: [(&str, Preset); 5] = [
    ("ndjson", Preset::Ndjson),
    ("clickhouse", Preset::Clickhouse),
    ("elasticsearch", Preset::Elasticsearch),
    ("loki", Preset::Loki),
    ("splunk", Preset::Splunk),
];
pub(super) const OPTION: SpecOption = SpecOption {
    key: "preset",
    values: Values::Words(&["ndjson", "clickhouse", "elasticsearch", "loki", "splunk"]),
    default: "ndjson",
    meaning: "what the server expects: lines, lines with a token (ClickHouse), or the requests of Elasticsearch's `_bulk`, Loki's `push` or Splunk's event collector",
};
pub(super) const LABELS: SpecOption = SpecOption {
    key: "labels",
    values: LABEL_VALUES,
    default: "none",
    meaning: "for preset=loki: what becomes a label in addition to `listener`, separated by commas: syslog fields or their OpenTelemetry \
              equivalents, fields that `parse` finds (`parsed.level`), and those of readers (`fields.namespace`)",
};
const FAILED: u16 = 500;
/// The conflict of a message that is there already.
const CONFLICT: u16 = 409;

impl Preset {
    /// The format of a message; `None` if the server cannot take messages in this one.
    pub(super) fn format(self, format: Format, labels: Labels) -> Option<Format> {
        let content = if format == Format::Raw { Content::Text } else { Content::Json };
        match self {
            Preset::Ndjson | Preset::Clickhouse => Some(format),
            Preset::Elasticsearch if content == Content::Text => None,
            Preset::Elasticsearch => Some(Format::Enveloped(Envelope::Elasticsearch, content)),
            Preset::Loki => Some(Format::Enveloped(Envelope::Loki(labels), content)),
            Preset::Splunk => Some(Format::Enveloped(Envelope::Splunk, content)),
        }
    }

    pub(super) fn content_type(self, format: Format) -> HeaderValue {
        HeaderValue::from_static(match self {
            Preset::Ndjson | Preset::Clickhouse if format == Format::Raw => "text/plain",
            Preset::Ndjson | Preset::Clickhouse | Preset::Elasticsearch => "application/x-ndjson",
            Preset::Loki | Preset::Splunk => "application/json",
        })
    }

    /// Makes a body of formatted messages.
    pub(super) fn body(self, mut lines: Vec<u8>) -> Vec<u8> {
        if self != Preset::Loki {
            return lines;
        }
        // There is no other line feed: JSON escapes those of messages.
        lines.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b',');
        lines.pop();
        [&b"{\"streams\":["[..], &lines, b"]}"].concat()
    }

    /// Whether a response with a good status has to be read.
    pub(super) fn has_verdicts(self) -> bool {
        self == Preset::Elasticsearch
    }

    /// What the body of such a response says of so many messages, and whether the server has taken any of them. If the index of a message
    /// `is_of_sender`, an index that is missing, or takes nothing, is the message's fault: nobody else is to wait for it.
    pub(super) fn verdict(self, body: &[u8], records: u64, is_of_sender: bool) -> (Verdict, bool) {
        let items = match serde_json::from_slice::<Bulk>(body) {
            Ok(bulk) if !bulk.errors => return (Verdict::Taken, true),
            Ok(bulk) => bulk.items,
            Err(_) => {
                let why = "responds to _bulk with something else; check the path";
                return (Verdict::Later(why.to_owned()), false);
            }
        };
        let items: Vec<Item> = items.into_iter().map(|item| item.create).collect();
        let is_there = |item: &Item| (200..300).contains(&item.status) || item.status == CONFLICT;
        let has_some = items.iter().any(is_there);
        if items.len() as u64 != records {
            let why = format!("says what became of {} of {records} messages", items.len());
            return (Verdict::Later(why), has_some);
        }
        let failed = || items.iter().filter(|item| !is_there(item));
        let text = |item: &Item| format!("{} {}", item.status, item.error);
        // What may be taken later is sent again first: a body with both would be halved for nothing.
        let verdict = if let Some(why) = failed().find(|item| item.is_temporary(is_of_sender)).map(text) {
            Verdict::Later(why)
        } else if let Some(why) = failed().find(|item| item.has_failed(is_of_sender)).map(text) {
            Verdict::Failed(why)
        } else {
            failed().next().map(text).map_or(Verdict::Taken, Verdict::Refused)
        };
        (verdict, has_some)
    }
}

/// The response of `_bulk`.
#[derive(Deserialize)]
struct Bulk {
    errors: bool,
    #[serde(default)]
    items: Vec<Created>,
}

#[derive(Deserialize)]
struct Created {
    create: Item,
}

#[derive(Deserialize)]
struct Item {
    status: u16,
    #[serde(default)]
    error: serde_json::Value,
}

impl Item {
    /// The index is missing (404), or takes nothing (403): the same for all messages, unless senders choose it.
    fn is_temporary(&self, is_of_sender: bool) -> bool {
        let lacks_index = matches!(self.status, 403 | 404);
        matches!(self.status, 401 | 408 | 429) || self.status > FAILED || (lacks_index && !is_of_sender)
    }

    /// The server cannot handle the document, or any. Or its index takes nothing now.
    fn has_failed(&self, is_of_sender: bool) -> bool {
        self.status == FAILED || (self.status == 403 && is_of_sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_response_tells_what_was_taken() {
        let verdict_of = |text: &str, records| Preset::Elasticsearch.verdict(text.as_bytes(), records, false);
        let verdict = |text: &str| verdict_of(text, text.matches("create").count() as u64).0;
        let items = |statuses: &[u16]| {
            let items: Vec<String> = statuses
                .iter()
                .map(|status| {
                    format!(r#"{{"create":{{"status":{status},"error":{{"type":"why {status}"}}}}}}"#)
                })
                .collect();
            format!(r#"{{"took":3,"errors":true,"items":[{}]}}"#, items.join(","))
        };
        assert_eq!(
            verdict(r#"{"took":3,"errors":false,"items":[{"create":{"status":201}}]}"#),
            Verdict::Taken
        );
        assert_eq!(verdict(r#"{"took":0,"errors":false}"#), Verdict::Taken);
        assert_eq!(verdict(&items(&[201, 409, 201])), Verdict::Taken, "what is there already");
        let Verdict::Refused(why) = verdict(&items(&[201, 400])) else { panic!("it is refused for good") };
        assert!(why.contains("why 400"), "{why}");
        let Verdict::Later(why) = verdict(&items(&[400, 429])) else { panic!("it may be taken later") };
        assert!(why.contains("why 429"), "{why}");
        assert!(matches!(verdict(&items(&[404])), Verdict::Later(_)), "the index can be made");
        // One of many indices that senders choose.
        let of_sender = |status| Preset::Elasticsearch.verdict(items(&[201, status]).as_bytes(), 2, true);
        assert!(matches!(of_sender(403), (Verdict::Failed(_), true)), "it may take something later");
        assert!(matches!(of_sender(404), (Verdict::Refused(_), true)), "it is not there");
        assert!(matches!(of_sender(429), (Verdict::Later(_), true)));
        let Verdict::Failed(why) = verdict(&items(&[201, 400, 500])) else { panic!("it failed on one") };
        assert!(why.contains("why 500"), "{why}");
        assert!(matches!(verdict(&items(&[500, 503])), Verdict::Later(_)));
        assert!(matches!(verdict("<html>"), Verdict::Later(_)));
        // Nothing is taken for there that the server does not say so of.
        assert!(matches!(verdict_of(r#"{"errors":true}"#, 1), (Verdict::Later(_), false)));
        assert!(matches!(verdict_of(&items(&[201]), 2), (Verdict::Later(_), true)));
        assert!(matches!(verdict_of(&items(&[100]), 1), (Verdict::Refused(_), false)));
    }

    #[test]
    fn the_entries_of_loki_are_in_an_object() {
        let body = Preset::Loki.body(b"{\"values\":[[\"1\",\"a\\nb\"]]}\n{\"values\":[]}\n".to_vec());
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["streams"][0]["values"][0][1], "a\nb");
        assert_eq!(body["streams"].as_array().unwrap().len(), 2);
    }
}
