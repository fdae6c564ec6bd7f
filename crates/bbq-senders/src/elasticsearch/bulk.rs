//! The request `_bulk`: a line that says what to do, and a line with a document, in turn.
//!
//! ```text
//! {"create":{"_index":"logs-app","_id":"7"}}
//! {"@timestamp":"2026-11-30T10:00:00Z","message":"a document"}
//! ```
//!
//! Invariant: a document is stored byte for byte, or its item has an error.

use std::borrow::Cow;

use bbq_wire::batch::Events;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::PRODUCT;
use super::items::{Items, Operation, Outcome};
use crate::answer::{Answer, JSON};
use crate::collected::{Collected, TooMuch};
use crate::json::{is_object, scalar, text};
use crate::limits::{Limits, MESSAGES_MAX};
use crate::time;

/// Each has some 150 bytes in the response, however short it is.
const ITEMS_MAX: usize = MESSAGES_MAX;
/// Bytes of an `_id`, as at Elasticsearch.
const ID_BYTES_MAX: usize = 512;
/// Bytes of the name of an index, as at Elasticsearch.
const INDEX_BYTES_MAX: usize = 255;

/// What holds for items that do not say otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct BulkDefaults<'a> {
    /// The index in the path.
    pub index: Option<&'a str>,
    /// `?pipeline=`.
    pub pipeline: Option<&'a str>,
}

/// What is read of a request.
#[derive(Debug)]
pub struct Bulk {
    /// The documents that may be stored.
    pub events: Events,
    /// Whether each of them is created under an `_id` that its sender has chosen: the request is a repeat if it comes again. An `index`
    /// action may mean the same document again, after another one with its `_id`.
    pub creates_by_id: bool,
    items: Items,
    limits: Limits,
}

/// Why a request cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    /// The line with this number, from 1, is not as it should be.
    #[error("Malformed action/metadata line [{line}]: {why}")]
    Action {
        /// See above.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It has no items.
    #[error("request body is required")]
    Empty,
    /// It has too many.
    #[error("the request has more than {ITEMS_MAX} items; send fewer in a request")]
    Items,
    /// It is too large.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
}

impl Bulk {
    /// The memory that it holds beside the events.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.items.memory()
    }

    /// Items whose documents are too long, and those that are wrong in another way.
    #[must_use]
    pub fn refused(&self) -> (u64, u64) {
        let too_long = self.items.count(Outcome::TooLong);
        (too_long, self.items.len() as u64 - self.items.count(Outcome::Stored) - too_long)
    }

    /// The answer when all events are stored.
    #[must_use]
    pub fn taken(&self, took_ms: u64) -> Answer {
        let has_errors = self.items.count(Outcome::Stored) < self.items.len() as u64;
        let mut body = format!("{{\"took\":{took_ms},\"errors\":{has_errors},\"items\":").into_bytes();
        self.items.append_json(self.limits, &mut body);
        body.push(b'}');
        Answer { status: 200, content_type: JSON, headers: PRODUCT, body }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Action<'a> {
    #[serde(borrow)]
    create: Option<&'a RawValue>,
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    update: Option<&'a RawValue>,
    #[serde(borrow)]
    delete: Option<&'a RawValue>,
}

/// What is read of the rest of an action. What else is there is for a search engine.
#[derive(Clone, Copy, Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, rename = "_index")]
    index: Option<&'a RawValue>,
    #[serde(borrow, rename = "_id")]
    id: Option<&'a RawValue>,
    #[serde(borrow, alias = "_routing")]
    routing: Option<&'a RawValue>,
    #[serde(borrow)]
    pipeline: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, rename = "@timestamp")]
    timestamp: Option<&'a RawValue>,
}

/// Reads a request.
///
/// # Errors
/// Why nothing of it can be taken. What is wrong with one item is in the answer.
pub fn bulk(body: &[u8], defaults: BulkDefaults<'_>, limits: Limits) -> Result<Bulk, BulkError> {
    let mut reading =
        Reading { collected: Collected::new(limits), items: Items::default(), creates_by_id: true, defaults };
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let mut lines = (1..).zip(body.split(|byte| *byte == b'\n'));
    // Many senders write the same action for all documents of a request.
    let mut last: (&[u8], Option<(Operation, Metadata<'_>)>) = (&[], None);
    while let Some((line, action)) = lines.next() {
        let action = action.trim_ascii();
        if action.is_empty() {
            continue;
        }
        let wrong = |why: String| BulkError::Action { line, why };
        let (operation, metadata) = match last {
            (known, Some(read)) if known == action => read,
            _ => read_action(action).map_err(wrong)?,
        };
        last = (action, Some((operation, metadata)));
        if reading.items.len() == ITEMS_MAX {
            return Err(BulkError::Items);
        }
        let document = match operation {
            Operation::Delete => None,
            // An empty line is no document, and the last line of a request is empty.
            _ => Some(lines.next().map_or(&[][..], |(_, line)| line.strip_suffix(b"\r").unwrap_or(line))),
        };
        reading.item(operation, &metadata, document).map_err(|stop| match stop {
            Stop::Metadata(why) => wrong(why),
            Stop::TooMuch(why) => why.into(),
        })?;
    }
    if reading.items.len() == 0 {
        return Err(BulkError::Empty);
    }
    let Reading { collected, items, creates_by_id, .. } = reading;
    Ok(Bulk { events: collected.events, creates_by_id, items, limits })
}

fn read_action(line: &[u8]) -> Result<(Operation, Metadata<'_>), String> {
    let expected = || "expected one of create, index, update, delete with an object".to_owned();
    if !is_object(line) {
        return Err(expected());
    }
    let Action { create, index, update, delete } =
        serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let mut found = [
        (Operation::Create, create),
        (Operation::Index, index),
        (Operation::Update, update),
        (Operation::Delete, delete),
    ]
    .into_iter()
    .filter_map(|(operation, metadata)| Some((operation, metadata?)));
    match (found.next(), found.next()) {
        (Some((operation, metadata)), None) if is_object(metadata.get().as_bytes()) => {
            let metadata = serde_json::from_str(metadata.get()).map_err(|error| error.to_string())?;
            Ok((operation, metadata))
        }
        _ => Err(expected()),
    }
}

/// Why the rest of a request is not read.
enum Stop {
    Metadata(String),
    TooMuch(TooMuch),
}

struct Reading<'a> {
    collected: Collected,
    items: Items,
    creates_by_id: bool,
    defaults: BulkDefaults<'a>,
}

impl<'a> Reading<'a> {
    fn item(
        &mut self,
        operation: Operation,
        metadata: &Metadata<'a>,
        document: Option<&[u8]>,
    ) -> Result<(), Stop> {
        let index = named("_index", metadata.index)?.or(self.defaults.index.map(Cow::Borrowed));
        let index = index.ok_or_else(|| Stop::Metadata("index is missing".to_owned()))?;
        let id = named("_id", metadata.id)?;
        let routing = named("routing", metadata.routing)?;
        let pipeline = named("pipeline", metadata.pipeline)?.or(self.defaults.pipeline.map(Cow::Borrowed));
        let (index, whole_id) = (&*index, id.as_deref().unwrap_or_default());
        let names = (
            &index[..index.floor_char_boundary(INDEX_BYTES_MAX)],
            &whole_id[..whole_id.floor_char_boundary(ID_BYTES_MAX)],
        );
        let is_name = !index.is_empty() && names == (index, whole_id) && id.as_deref() != Some("");
        let outcome = match (operation, document) {
            (Operation::Update | Operation::Delete, _) | (_, None) => Err(Outcome::Changes),
            _ if !is_name => Err(Outcome::Name),
            (_, Some(document)) if !self.collected.fits(document) => Err(Outcome::TooLong),
            (_, Some(document)) => read_time(document).map(|time_ns| (document, time_ns)),
        };
        match outcome {
            Ok((document, time_ns)) => {
                let (mut fields, mut count) = ([("_index", index); 4], 1);
                for (name, value) in [("_id", &id), ("routing", &routing), ("pipeline", &pipeline)] {
                    if let Some(value) = value {
                        fields[count] = (name, value);
                        count += 1;
                    }
                }
                self.collected.push(document, time_ns, &fields[..count]).map_err(Stop::TooMuch)?;
                self.creates_by_id &= operation == Operation::Create && id.is_some();
                self.items.push(operation, Outcome::Stored, names);
            }
            Err(outcome) => self.items.push(operation, outcome, names),
        }
        Ok(())
    }
}

/// The text of a member of an action.
fn named<'a>(name: &str, value: Option<&'a RawValue>) -> Result<Option<Cow<'a, str>>, Stop> {
    let Some(value) = value else { return Ok(None) };
    let wrong = || Stop::Metadata(format!("expected a simple value for field [{name}]"));
    scalar(value).map(Some).ok_or_else(wrong)
}

/// The time of a document, 0 if it has none that can be read.
fn read_time(document: &[u8]) -> Result<u64, Outcome> {
    if !is_object(document) {
        return Err(Outcome::NoObject);
    }
    let Document { timestamp } = serde_json::from_slice(document).map_err(|_| Outcome::NoObject)?;
    let Some(timestamp) = timestamp else { return Ok(0) };
    let time_ns = match text(timestamp) {
        Some(text) => time::of_date(&text).or_else(|| time::of_milliseconds(&text)),
        None => time::of_milliseconds(timestamp.get()),
    };
    Ok(time_ns.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const LIMITS: Limits = Limits { message_bytes_max: 60, bytes_max: 100_000 };

    fn read(body: &str) -> Result<Bulk, BulkError> {
        bulk(body.as_bytes(), BulkDefaults { index: Some("logs"), pipeline: None }, LIMITS)
    }

    fn statuses(bulk: &Bulk) -> Vec<u64> {
        let answer: Value = serde_json::from_slice(&bulk.taken(3).body).unwrap();
        let items = answer["items"].as_array().unwrap().iter();
        let status =
            |item: &Value| item.as_object().unwrap().values().next().unwrap()["status"].as_u64().unwrap();
        items.map(status).collect()
    }

    #[test]
    fn documents_stay_as_they_came_and_names_are_fields() {
        let documents = [
            r#" { "@timestamp" : "1970-01-01T00:00:01Z", "a":1.0,"a":2 }"#,
            r#"{"@timestamp":1500,"b":"\ud800"}"#,
            r#"{"@timestamp":"later"}"#,
            "{}",
        ];
        let body = format!(
            "{{\"create\":{{\"_index\":\"a\",\"_id\":\"x\"}}}}\r\n{}\r\n{{\"index\":{{\"_id\":7,\"routing\":\"r\"}}}}\n{}\n\n\
             {{\"create\":{{\"_id\":\"y\",\"dynamic_templates\":{{}}}}}}\n{}\n{{\"index\":{{\"_id\":null}}}}\n{}",
            documents[0], documents[1], documents[2], documents[3]
        );
        let found = read(&body).unwrap();
        let messages: Vec<&[u8]> = found.events.iter().map(|event| event.message).collect();
        assert_eq!(messages, documents.map(str::as_bytes));
        let times: Vec<u64> = found.events.iter().map(|event| event.time_ns).collect();
        assert_eq!(times, [1_000_000_000, 1_500_000_000, 0, 0]);
        let fields: Vec<Vec<_>> = found.events.iter().map(|event| event.fields.collect()).collect();
        assert_eq!(fields[0], [("_index", "a"), ("_id", "x")]);
        assert_eq!(fields[1], [("_index", "logs"), ("_id", "7"), ("routing", "r")]);
        assert_eq!(fields[3], [("_index", "logs")]);
        assert_eq!(statuses(&found), [201; 4]);
        assert!(!found.creates_by_id);
        let answer: Value = serde_json::from_slice(&found.taken(3).body).unwrap();
        assert_eq!((&answer["took"], &answer["errors"]), (&json!(3), &json!(false)));
        assert_eq!(found.refused(), (0, 0));
    }

    #[test]
    fn an_item_that_is_wrong_has_an_error_and_the_others_are_stored() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(60));
        let id = "i".repeat(513);
        let body = format!(
            "{{\"create\":{{\"_id\":\"1\"}}}}\n{{\"n\":1}}\n\
             {{\"update\":{{\"_id\":\"1\"}}}}\n{{\"doc\":{{}}}}\n\
             {{\"delete\":{{\"_id\":\"1\"}}}}\n\
             {{\"create\":{{}}}}\n[1]\n\
             {{\"create\":{{}}}}\n{{\"a\":\n\
             {{\"create\":{{}}}}\n{{\"@timestamp\":1,\"@timestamp\":2}}\n\
             {{\"create\":{{}}}}\n{long}\n\
             {{\"create\":{{\"_id\":\"\"}}}}\n{{}}\n\
             {{\"create\":{{\"_id\":\"{id}\"}}}}\n{{}}\n\
             {{\"create\":{{\"_index\":\"\"}}}}\n{{}}\n\
             {{\"index\":{{\"_id\":\"2\"}}}}\n{{\"n\":2}}\n\
             {{\"index\":{{\"_id\":\"3\"}}}}\n"
        );
        let found = read(&body).unwrap();
        assert_eq!(statuses(&found), [201, 400, 400, 400, 400, 400, 413, 400, 400, 400, 201, 400]);
        let messages: Vec<&[u8]> = found.events.iter().map(|event| event.message).collect();
        assert_eq!(messages, [b"{\"n\":1}", b"{\"n\":2}"]);
        assert!(!found.creates_by_id, "one of them is indexed");
        assert_eq!(found.refused(), (1, 9));
    }

    #[test]
    fn a_wrong_action_refuses_the_request_and_names_its_line() {
        for (body, line) in [
            ("x", 1),
            ("[]", 1),
            ("{}", 1),
            ("null", 1),
            ("{\"create\":null}\n{}", 1),
            ("{\"create\":[]}\n{}", 1),
            ("{\"create\":{}}\n{}\n{\"upsert\":{}}\n{}", 3),
            ("{\"create\":{},\"index\":{}}\n{}", 1),
            ("{\"create\":{},\"create\":{}}\n{}", 1),
            ("{\"create\":{\"_id\":{}}}\n{}", 1),
            ("{\"create\":{\"_id\":\"a\",\"_id\":\"b\"}}\n{}", 1),
            ("{\"create\":{}} x\n{}", 1),
            ("\n\n{\"message\":\"a document without an action\"}\n", 3),
        ] {
            match read(body) {
                Err(BulkError::Action { line: found, .. }) => assert_eq!(found, line, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
        assert_eq!(read("").unwrap_err(), BulkError::Empty);
        assert_eq!(read("\u{feff}\n\r\n").unwrap_err(), BulkError::Empty);
        let nowhere = bulk(b"{\"create\":{}}\n{}", BulkDefaults::default(), LIMITS).unwrap_err();
        assert!(nowhere.to_string().ends_with("index is missing"), "{nowhere}");
        let nested = format!("{{\"create\":{}", "{\"a\":".repeat(1 << 18));
        assert!(read(&nested).is_err());
    }

    #[test]
    fn a_request_has_so_many_items_and_bytes_at_most() {
        let many = "{\"delete\":{}}\n".repeat(ITEMS_MAX);
        let found = read(&many).unwrap();
        assert!(found.memory() < 4 << 20, "{}", found.memory());
        assert_eq!(read(&format!("{many}{{\"delete\":{{}}}}")).unwrap_err(), BulkError::Items);
        let routing = "r".repeat(4000);
        let item = |number: u32| format!("{{\"create\":{{\"routing\":\"{number}{routing}\"}}}}\n{{}}\n");
        let wide: String = (0..30).map(item).collect();
        assert!(matches!(read(&wide), Err(BulkError::TooMuch(_))));
        assert!(read(&item(1).repeat(30)).is_ok());
    }
}
