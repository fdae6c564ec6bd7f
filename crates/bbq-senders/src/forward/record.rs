//! A record as a message with fields.
//!
//! ```text
//! {"log": "GET /", "source": "stdout", "n": 1}     message  GET /
//!                                                  fields   fluent.tag, source=stdout, n=1
//! {"user": 7}                                      message  {"user":7}
//!                                                  fields   fluent.tag
//! ```
//!
//! The first of [`MESSAGE_KEYS`] that a record has as a text is its message, and the other pairs are its fields. If it has none, or if
//! a pair does not fit into a field, the whole record is the message, as JSON.
//!
//! Invariant: nothing of a record is lost, except for a line feed at the end of its message.

use bbq_wire::batch::Events;
use bbq_wire::limits::{FIELD_NAME_BYTES_MAX, FIELD_VALUE_BYTES_MAX, FIELDS_MAX};

use super::error::NotForward;
use super::json;
use super::msgpack::{Head, Reader};

/// Where a record's message is, in this order: `log` is that of containers, `message` and `msg` those of libraries, `MESSAGE` that of the
/// journal.
pub const MESSAGE_KEYS: [&str; 4] = ["log", "message", "msg", "MESSAGE"];
/// The field with the tag.
pub const TAG_FIELD: &str = "fluent.tag";
/// The field with the metadata of an entry, which Fluent Bit can send, as JSON.
pub const METADATA_FIELD: &str = "fluent.metadata";

/// Fields that a record has beside its own.
const FIELDS_ADDED: usize = 2;
/// Memory of the last record that is used again.
const TEXTS_KEPT_BYTES: usize = 64 * 1024;

/// What is the same for all entries of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) tag: &'a str,
    pub(super) message_bytes_max: usize,
    /// Whether longer messages are cut, and not left out.
    pub(super) cuts: bool,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Taken,
    /// Its front was taken.
    Cut,
    /// It is too long, and was left out.
    Oversize,
}

/// Memory that is used for one record after another.
#[derive(Debug, Default)]
pub(super) struct Scratch<'a> {
    pairs: Vec<(&'a str, Value<'a>)>,
    /// The texts of values that are no texts.
    texts: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Text(&'a str),
    /// Bytes that are not UTF-8.
    Bytes(&'a [u8]),
    /// From here to there in the texts.
    Made(usize, usize),
}

impl<'a> Scratch<'a> {
    /// Adds a record to `events`. `metadata` is empty, or a value.
    pub(super) fn push(
        &mut self,
        record: &'a [u8],
        (time_ns, metadata): (u64, &[u8]),
        context: Context<'_>,
        events: &mut Events,
    ) -> Result<Outcome, NotForward> {
        self.pairs.clear();
        self.texts.clear();
        if self.texts.capacity() > TEXTS_KEPT_BYTES {
            self.texts = Vec::new();
        }
        let has_metadata = !matches!(Reader::new(metadata).head(), Err(_) | Ok(Head::Map(0) | Head::Nil));
        if has_metadata {
            json::put(&mut Reader::new(metadata), &mut self.texts)?;
        }
        let metadata = 0..self.texts.len();
        let message = self.read(record)?;
        let from = self.texts.len();
        if message.is_none() {
            json::put(&mut Reader::new(record), &mut self.texts)?;
        }
        let more = has_metadata.then(|| (METADATA_FIELD, self.made(metadata.start, metadata.end)));
        let common = [(TAG_FIELD, context.tag)].into_iter().chain(more);
        let Some(place) = message else {
            return Ok(add(events, &self.texts[from..], time_ns, context, common));
        };
        let message = match self.pairs[place].1 {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            Value::Made(..) => &[],
        };
        let message = message.strip_suffix(b"\n").unwrap_or(message);
        let others = self.pairs.iter().enumerate().filter(|(at, _)| *at != place);
        let own = others.filter_map(|(_, (name, value))| Some((*name, self.text(*value)?)));
        Ok(add(events, message, time_ns, context, common.chain(own)))
    }

    /// Reads the pairs of a record. Returns the place of the one that is its message, if all others fit into fields.
    fn read(&mut self, record: &'a [u8]) -> Result<Option<usize>, NotForward> {
        let mut reader = Reader::new(record);
        let Head::Map(pairs) = reader.head()? else { return Ok(None) };
        // One of them is the message.
        if pairs as usize > FIELDS_MAX - FIELDS_ADDED + 1 {
            return Ok(None);
        }
        let mut message: Option<(usize, usize)> = None;
        for place in 0..pairs as usize {
            let name = match reader.head()? {
                Head::Text(bytes) | Head::Binary(bytes) => std::str::from_utf8(reader.take(bytes)?),
                _ => return Ok(None),
            };
            let Some(name) = name.ok().filter(|name| name.len() <= FIELD_NAME_BYTES_MAX) else {
                return Ok(None);
            };
            let value = self.value(&mut reader)?;
            self.pairs.push((name, value));
            if let Some(rank) = MESSAGE_KEYS.iter().position(|key| *key == name)
                && !matches!(value, Value::Made(..))
                && message.is_none_or(|(best, _)| rank < best)
            {
                message = Some((rank, place));
            }
        }
        let Some((_, message)) = message else { return Ok(None) };
        let mut others = self.pairs.iter().enumerate().filter(|(place, _)| *place != message);
        let fit = others
            .all(|(_, (_, value))| self.text(*value).is_some_and(|text| text.len() <= FIELD_VALUE_BYTES_MAX));
        Ok(fit.then_some(message))
    }

    fn value(&mut self, reader: &mut Reader<'a>) -> Result<Value<'a>, NotForward> {
        let mut ahead = *reader;
        if let Head::Text(bytes) | Head::Binary(bytes) = ahead.head()? {
            let bytes = ahead.take(bytes)?;
            *reader = ahead;
            return Ok(std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::Text));
        }
        let from = self.texts.len();
        json::put(reader, &mut self.texts)?;
        let (mut from, mut to) = (from, self.texts.len());
        if self.texts.get(from) == Some(&b'"') {
            // A number that is none: a word without anything to escape.
            (from, to) = (from + 1, to - 1);
        }
        Ok(Value::Made(from, to))
    }

    fn text(&self, value: Value<'a>) -> Option<&str> {
        match value {
            Value::Text(text) => Some(text),
            Value::Bytes(_) => None,
            Value::Made(from, to) => Some(self.made(from, to)),
        }
    }

    fn made(&self, from: usize, to: usize) -> &str {
        // JSON is UTF-8.
        std::str::from_utf8(&self.texts[from..to]).unwrap_or_default()
    }
}

fn add<'a>(
    events: &mut Events,
    message: &[u8],
    time_ns: u64,
    context: Context<'_>,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
) -> Outcome {
    let bytes_max = context.message_bytes_max;
    let (message, outcome) = match message.len() {
        length if length <= bytes_max => (message, Outcome::Taken),
        _ if context.cuts => (&message[..bytes_max], Outcome::Cut),
        _ => return Outcome::Oversize,
    };
    events.push(message, time_ns, fields);
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, Value as Packed};
    use super::*;

    const CONTEXT: Context<'_> = Context { tag: "t", message_bytes_max: 100_000, cuts: false };

    fn pushed(record: &Packed, context: Context<'_>) -> (Outcome, Events) {
        let (record, mut events) = (testing::packed(record), Events::default());
        let outcome = Scratch::default().push(&record, (7, &[]), context, &mut events).unwrap();
        (outcome, events)
    }

    /// The message of a record, and its fields without the tag.
    fn read(record: &Packed) -> (String, Vec<(String, String)>) {
        let (outcome, events) = pushed(record, CONTEXT);
        assert_eq!((outcome, events.len()), (Outcome::Taken, 1));
        let event = events.iter().next().unwrap();
        assert_eq!(event.time_ns, 7);
        let mut fields: Vec<_> =
            event.fields.clone().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(fields.remove(0), ("fluent.tag".to_owned(), "t".to_owned()));
        (String::from_utf8_lossy(event.message).into_owned(), fields)
    }

    fn fields(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_message_is_the_text_of_the_first_known_key_and_the_rest_is_fields() {
        let docker = testing::map([
            ("container_id", Packed::text("0af3")),
            ("log", Packed::text("GET /\n")),
            ("source", Packed::text("stdout")),
        ]);
        let expected = fields(&[("container_id", "0af3"), ("source", "stdout")]);
        assert_eq!(read(&docker), ("GET /".to_owned(), expected));
        let all = testing::map([
            ("msg", Packed::text("m")),
            ("n", Packed::Int(-3)),
            ("x", Packed::F64(0.5)),
            ("nan", Packed::F64(f64::NAN)),
            ("ok", Packed::Bool(true)),
            ("none", Packed::Nil),
            ("deep", testing::map([("a", Packed::Array(vec![Packed::Int(1), Packed::text("\"")]))])),
            ("message", Packed::Binary(b"chosen".to_vec())),
        ]);
        let expected = fields(&[
            ("msg", "m"),
            ("n", "-3"),
            ("x", "0.5"),
            ("nan", "NaN"),
            ("ok", "true"),
            ("none", "null"),
            ("deep", r#"{"a":[1,"\""]}"#),
        ]);
        assert_eq!(read(&all), ("chosen".to_owned(), expected));
    }

    #[test]
    fn a_record_without_a_message_is_json() {
        for (record, text) in [
            (testing::map([("user", Packed::Int(7))]), r#"{"user":7}"#),
            (testing::map([("log", Packed::Int(7))]), r#"{"log":7}"#),
            (testing::map([]), "{}"),
            (Packed::Nil, "null"),
            (Packed::text("x"), "\"x\""),
            (Packed::Array(vec![Packed::Int(1)]), "[1]"),
            (testing::map([("a", Packed::Binary(vec![0xff]))]), r#"{"a":{"base64":"/w=="}}"#),
        ] {
            assert_eq!(read(&record), (text.to_owned(), vec![]), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_into_fields_is_not_cut_off() {
        let long = "x".repeat(FIELD_VALUE_BYTES_MAX + 1);
        let name = "n".repeat(FIELD_NAME_BYTES_MAX + 1);
        for other in [
            ("a", Packed::text(&long)),
            (name.as_str(), Packed::Int(1)),
            ("a", Packed::Binary(vec![0xff])),
            ("a", Packed::Array(vec![Packed::text(&long)])),
        ] {
            let (message, fields) = read(&testing::map([("log", Packed::text("l")), other]));
            assert!(message.starts_with(r#"{"log":"l","#) && fields.is_empty(), "{message}");
        }
        // A long message is no field.
        assert_eq!(read(&testing::map([("log", Packed::text(&long))])), (long, vec![]));
        let names: Vec<String> = (0..FIELDS_MAX).map(|number| format!("f{number}")).collect();
        let of = |count: usize| {
            let pairs = names[..count].iter().map(|name| (name.as_str(), Packed::Int(1)));
            testing::map(pairs.chain([("log", Packed::text("l"))]))
        };
        assert_eq!(read(&of(FIELDS_MAX - FIELDS_ADDED)).1.len(), FIELDS_MAX - FIELDS_ADDED);
        assert_eq!(read(&of(FIELDS_MAX - FIELDS_ADDED + 1)).1.len(), 0);
    }

    #[test]
    fn bytes_of_a_message_stay_as_they_are() {
        let (_, events) =
            pushed(&testing::map([("log", Packed::Binary(vec![0xff, 0, b'\n', b'\n']))]), CONTEXT);
        assert_eq!(events.iter().next().unwrap().message, [0xff, 0, b'\n']);
    }

    #[test]
    fn a_long_message_is_left_out_or_cut() {
        let record = testing::map([("log", Packed::text("0123456789"))]);
        let (outcome, events) = pushed(&record, Context { message_bytes_max: 9, ..CONTEXT });
        assert_eq!((outcome, events.len()), (Outcome::Oversize, 0));
        let (outcome, events) = pushed(&record, Context { message_bytes_max: 9, cuts: true, ..CONTEXT });
        assert_eq!((outcome, events.iter().next().unwrap().message), (Outcome::Cut, &b"012345678"[..]));
    }

    #[test]
    fn metadata_are_a_field() {
        let record = testing::packed(&testing::map([("log", Packed::text("l"))]));
        let metadata = testing::packed(&testing::map([("k", Packed::Int(1))]));
        let mut events = Events::default();
        Scratch::default().push(&record, (0, &metadata), CONTEXT, &mut events).unwrap();
        Scratch::default().push(&record, (0, &[0x80]), CONTEXT, &mut events).unwrap();
        let found: Vec<Vec<_>> = events.iter().map(|event| event.fields.collect()).collect();
        assert_eq!(
            found,
            [vec![("fluent.tag", "t"), ("fluent.metadata", r#"{"k":1}"#)], vec![("fluent.tag", "t")]]
        );
    }
}
