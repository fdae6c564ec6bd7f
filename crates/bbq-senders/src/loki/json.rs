//! A push request in JSON.
//!
//! ```text
//! {"streams":[{"stream":{"app":"shop"},"values":[["<nanoseconds>","line",{"trace":"abc"}]]}]}
//! {"streams":[{"labels":"{app=\"shop\"}","entries":[{"ts":"2026-11-30T10:00:00Z","line":"line"}]}]}     of earlier versions
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::labels;
use super::lines::{LineFields, Lines, PushError};
use crate::json::{self, Members, NotEach, is_object, members, scalar, text, trimmed};
use crate::time;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    streams: &'a RawValue,
}

#[derive(Deserialize)]
struct Stream<'a> {
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    values: Option<&'a RawValue>,
    #[serde(borrow)]
    entries: Option<&'a RawValue>,
}

/// `["time","line"]`, and perhaps metadata.
struct Value<'a> {
    time: &'a RawValue,
    line: &'a RawValue,
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, alias = "timestamp")]
    ts: &'a RawValue,
    #[serde(borrow)]
    line: &'a RawValue,
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of a time, a line and perhaps metadata")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value<'de>, A::Error> {
                let time = elements.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let line = elements.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                let metadata = elements.next_element::<Option<&RawValue>>()?.flatten();
                match elements.next_element::<IgnoredAny>()? {
                    None => Ok(Value { time, line, metadata }),
                    Some(_) => Err(A::Error::invalid_length(4, &self)),
                }
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

fn not_each(why: NotEach<PushError>) -> PushError {
    match why {
        NotEach::Json(error) => error.into(),
        NotEach::Refused(why) => why,
    }
}

pub(super) fn read(body: &[u8], tenant: Option<&str>, lines: &mut Lines) -> Result<(), PushError> {
    let body = trimmed(body);
    if !is_object(body) {
        return Err(PushError::of("it is no JSON object"));
    }
    let request: Request<'_> = serde_json::from_slice(body)?;
    json::each(request.streams, |stream: &RawValue| read_stream(stream, tenant, lines)).map_err(not_each)
}

fn read_stream(stream: &RawValue, tenant: Option<&str>, lines: &mut Lines) -> Result<(), PushError> {
    if !is_object(stream.get().as_bytes()) {
        return Err(PushError::of("a stream is no object"));
    }
    let Stream { stream, labels, values, entries } = serde_json::from_str(stream.get())?;
    let of_stream = match (stream, labels) {
        (Some(stream), None) => texts(stream)?,
        (None, Some(labels)) => {
            labels::read(&text(labels).ok_or_else(|| PushError::of("labels are no text"))?)?
        }
        _ => return Err(PushError::of("each of its streams has either `stream` or `labels`")),
    };
    if values.is_none() && entries.is_none() {
        return Err(PushError::of("a stream has no `values`"));
    }
    let mut of_line = LineFields::of_stream(tenant, &of_stream);
    if let Some(values) = values {
        json::each(values, |value: Value<'_>| {
            read_line((value.time, value.line), value.metadata, of_line.next_line(), lines)
        })
        .map_err(not_each)?;
    }
    if let Some(entries) = entries {
        json::each(entries, |entry: Entry<'_>| {
            read_line((entry.ts, entry.line), None, of_line.next_line(), lines)
        })
        .map_err(not_each)?;
    }
    Ok(())
}

fn read_line(
    (time, line): (&RawValue, &RawValue),
    metadata: Option<&RawValue>,
    of_stream: &[(&str, &str)],
    lines: &mut Lines,
) -> Result<(), PushError> {
    let time = scalar(time).unwrap_or(Cow::Borrowed("null"));
    let time_ns = time::of_nanoseconds(&time).or_else(|| time::of_date(&time));
    let time_ns = time_ns.ok_or_else(|| {
        let shown: String = time.chars().take(40).collect();
        PushError::of(format!("{shown:?} is no time in nanoseconds since 1970"))
    })?;
    let line = text(line).ok_or_else(|| PushError::of("a line is no text"))?;
    let Some(metadata) = metadata else { return Ok(lines.push(line.as_bytes(), time_ns, of_stream)?) };
    let own = texts(metadata)?;
    let own = own.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all: Vec<(&str, &str)> = of_stream.iter().copied().chain(own).collect();
    Ok(lines.push(line.as_bytes(), time_ns, &all)?)
}

/// Names and values of an object that has nothing but texts, or numbers and truth values, which some senders write instead.
fn texts(object: &RawValue) -> Result<Vec<(String, String)>, PushError> {
    let Members(members) = members(object)?;
    let text = |(name, value): (Cow<'_, str>, &RawValue)| {
        let value = scalar(value).ok_or_else(|| PushError::of(format!("the label {name:?} is no text")))?;
        Ok((name.into_owned(), value.into_owned()))
    };
    members.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Encoding, Push, push};
    use super::*;
    use crate::limits::Limits;

    fn read(body: &str) -> Result<Push, PushError> {
        push(Encoding::Json, body.as_bytes(), None, Limits { message_bytes_max: 20, bytes_max: 10_000 })
    }

    #[test]
    fn lines_of_both_versions_are_read() {
        let body = "\u{feff} {\"streams\":[\
            {\"stream\":{\"app\":\"shop\",\"n\":1},\"values\":[[\"5\",\"one\"],[\"6\",\"two\",{\"trace\":\"a\"}],[7,\"\\ud800\",null]]},\
            {\"values\":[],\"stream\":{}},\
            {\"entries\":[{\"ts\":\"1970-01-01T00:00:01Z\",\"line\":\"old\"}],\"labels\":\"{a=\\\"b\\\"}\"}],\"more\":[[]]}\n";
        let Push { events, too_long } = read(body).unwrap();
        let found: Vec<_> = events
            .iter()
            .map(|event| (event.message, event.time_ns, event.fields.collect::<Vec<_>>()))
            .collect();
        let shop = vec![("app", "shop"), ("n", "1")];
        assert_eq!(
            found,
            [
                (&b"one"[..], 5, shop.clone()),
                (b"two", 6, [&shop[..], &[("trace", "a")]].concat()),
                ("\u{fffd}".as_bytes(), 7, shop),
                (b"old", 1_000_000_000, vec![("a", "b")]),
            ]
        );
        assert_eq!(too_long, 0);
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out() {
        let long = "x".repeat(21);
        let body = format!(r#"{{"streams":[{{"stream":{{}},"values":[["1","{long}"],["2","short"]]}}]}}"#);
        let Push { events, too_long } = read(&body).unwrap();
        assert_eq!((events.len(), too_long), (1, 1));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let of_values = |values: &str| format!(r#"{{"streams":[{{"stream":{{}},"values":{values}}}]}}"#);
        let mut wrong: Vec<String> = [
            "",
            "null",
            "[]",
            "[[]]",
            "{}",
            "{\"streams\":null}",
            "{\"streams\":{}}",
            "{\"streams\":[[]]}",
            "{\"streams\":[null]}",
            "{\"streams\":[{}]}",
            "{\"streams\":[{\"stream\":{}}]}",
            "{\"streams\":[{\"values\":[]}]}",
            "{\"streams\":[{\"stream\":[],\"values\":[]}]}",
            "{\"streams\":[{\"stream\":{\"a\":{}},\"values\":[]}]}",
            "{\"streams\":[{\"stream\":{\"a\":null},\"values\":[]}]}",
            "{\"streams\":[{\"labels\":1,\"values\":[]}]}",
            "{\"streams\":[{\"labels\":\"{\",\"values\":[]}]}",
            "{\"streams\":[],\"streams\":[]}",
            "{\"streams\":[]} x",
            "{\"streams\":[]",
            // The name in snake case is not known, and what it has would be lost.
            "{\"Streams\":[]}",
        ]
        .map(str::to_owned)
        .into();
        for values in [
            "null",
            "{}",
            "[[]]",
            "[[\"1\"]]",
            "[[\"1\",\"a\",{},1]]",
            "[[\"1\",null]]",
            "[[\"1\",1]]",
            "[[\"1\",{}]]",
            "[[null,\"a\"]]",
            "[[\"-1\",\"a\"]]",
            "[[\"1.5\",\"a\"]]",
            "[[\"99999999999999999999\",\"a\"]]",
            "[[\"\",\"a\"]]",
            "[[[],\"a\"]]",
            "[[\"1\",\"a\",[]]]",
            "[[\"1\",\"a\",{\"b\":[]}]]",
            "[{\"ts\":\"1\",\"line\":\"a\"}]",
        ] {
            wrong.push(of_values(values));
        }
        // Nesting costs no stack.
        wrong.push(of_values(&"[".repeat(1 << 20)));
        wrong.push(of_values(&format!("[[\"1\",{}{}]]", "[".repeat(1 << 16), "]".repeat(1 << 16))));
        for body in wrong {
            let shown: String = body.chars().take(100).collect();
            assert!(matches!(read(&body), Err(PushError::Malformed(_))), "{shown}");
        }
        let invalid = push(
            Encoding::Json,
            b"{\"streams\":[{\"stream\":{},\"values\":[[\"1\",\"\xff\"]]}]}",
            None,
            Limits { message_bytes_max: 9, bytes_max: 999 },
        );
        assert!(matches!(invalid, Err(PushError::Malformed(_))));
    }
}
