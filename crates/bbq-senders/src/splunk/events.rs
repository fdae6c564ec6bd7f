//! The events of a request.
//!
//! ```text
//! {"event":"a text","time":1433188255.253,"host":"web-1","source":"app","sourcetype":"log","index":"main","fields":{"team":"shop"}}
//! {"event":{"any":"json"}}
//! ```
//!
//! Invariant: all events of a request are taken, or none.

use std::borrow::Cow;

use bbq_wire::batch::Events;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answers::{Code, Rejected};
use crate::collected::Collected;
use crate::json::{self, Members, is_object, scalar, trimmed};
use crate::limits::Limits;
use crate::time;

/// What holds for lines, by the query of their request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Names and values.
    pub fields: Vec<(&'static str, String)>,
    /// 0 if it is unknown.
    pub time_ns: u64,
}

/// Parameters of a request of lines that become fields.
const PARAMETERS: [&str; 4] = ["host", "source", "sourcetype", "index"];

impl Defaults {
    /// Those of a query.
    #[must_use]
    pub fn of_query(query: &str) -> Defaults {
        let value = |name| crate::url::parameter(query, name);
        let fields = PARAMETERS.iter().filter_map(|name| Some((*name, value(name)?))).collect();
        Defaults { fields, time_ns: value("time").and_then(|time| time::of_any_unit(&time)).unwrap_or(0) }
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    host: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    sourcetype: Option<&'a RawValue>,
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    fields: Option<&'a RawValue>,
}

/// Reads events: objects one behind the other, with white space between them or without. `defaults` are those of the query.
///
/// # Errors
/// Why none of them can be taken.
pub fn events(body: &[u8], defaults: &Defaults, limits: Limits) -> Result<Events, Rejected> {
    let body = trimmed(body);
    if body.is_empty() {
        return Err(Rejected::of(Code::NoData, None));
    }
    let mut collected = Collected::new(limits);
    let mut found = serde_json::Deserializer::from_slice(body).into_iter::<Event<'_>>();
    for number in 0.. {
        let rest = body.get(found.byte_offset()..).unwrap_or_default().trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        if !is_object(rest) {
            return Err(Rejected::format(number, "it is no object"));
        }
        match found.next() {
            Some(Ok(event)) => take(number, &event, defaults, &mut collected)?,
            Some(Err(error)) => return Err(Rejected::format(number, error.to_string())),
            None => break,
        }
    }
    Ok(collected.events)
}

fn take(
    number: usize,
    event: &Event<'_>,
    defaults: &Defaults,
    collected: &mut Collected,
) -> Result<(), Rejected> {
    let message = match event.event.map(|value| (value, json::text(value))) {
        None => return Err(Rejected::of(Code::EventRequired, Some(number))),
        Some((_, Some(text))) if text.is_empty() => {
            return Err(Rejected::of(Code::EventBlank, Some(number)));
        }
        Some((_, Some(text))) => text,
        Some((value, None)) => Cow::Borrowed(value.get()),
    };
    if !collected.fits(message.as_bytes()) {
        return Err(Rejected::too_large(Some(number), "an event is longer than message_bytes_max"));
    }
    let time_ns = match event.time.map(scalar) {
        None => defaults.time_ns,
        Some(Some(time)) if time.trim().is_empty() => 0,
        Some(time) => time
            .and_then(|time| time::of_any_unit(&time))
            .ok_or_else(|| Rejected::format(number, "`time` is no number of seconds"))?,
    };
    let mut own = Vec::new();
    for (name, value) in PARAMETERS.into_iter().zip([event.host, event.source, event.sourcetype, event.index])
    {
        let Some(value) = value else {
            let default = defaults.fields.iter().find(|(known, _)| *known == name);
            own.extend(default.map(|(_, value)| (Cow::Borrowed(name), Cow::Borrowed(value.as_str()))));
            continue;
        };
        let value = scalar(value).ok_or_else(|| Rejected::format(number, format!("`{name}` is no text")))?;
        own.push((Cow::Borrowed(name), value));
    }
    if let Some(fields) = event.fields {
        indexed_fields(fields, &mut own).ok_or_else(|| Rejected::of(Code::IndexedFields, Some(number)))?;
    }
    let own: Vec<(&str, &str)> = own.iter().map(|(name, value)| (&**name, &**value)).collect();
    Ok(collected.push(message.as_bytes(), time_ns, &own)?)
}

/// Adds the members of `fields`. An array stays as JSON, and null is no value.
fn indexed_fields<'a>(fields: &'a RawValue, own: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Option<()> {
    let Members(members) = json::members(fields).ok()?;
    for (name, value) in members {
        let text = match value.get().as_bytes().first()? {
            b'{' => return None,
            b'n' => continue,
            b'[' => Cow::Borrowed(value.get()),
            _ => scalar(value)?,
        };
        own.push((name, text));
    }
    Some(())
}

/// Reads lines, each of them an event.
///
/// # Errors
/// Why none of them can be taken.
pub fn raw(body: &[u8], defaults: &Defaults, limits: Limits) -> Result<Events, Rejected> {
    let mut collected = Collected::new(limits);
    let fields = defaults.pairs();
    let lines = body.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    for line in lines.filter(|line| !line.is_empty()) {
        if !collected.fits(line) {
            return Err(Rejected::too_large(None, "a line is longer than message_bytes_max"));
        }
        collected.push(line, defaults.time_ns, &fields)?;
    }
    if collected.events.is_empty() {
        return Err(Rejected::of(Code::NoData, None));
    }
    Ok(collected.events)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { message_bytes_max: 20, bytes_max: 10_000 };

    fn read(body: &str) -> Result<Events, Rejected> {
        events(body.as_bytes(), &Defaults::default(), LIMITS)
    }

    /// Message, time and fields.
    type Shown<'a> = (&'a str, u64, Vec<(&'a str, &'a str)>);

    fn shown(events: &Events) -> Vec<Shown<'_>> {
        let text = |message| std::str::from_utf8(message).unwrap();
        events.iter().map(|event| (text(event.message), event.time_ns, event.fields.collect())).collect()
    }

    #[test]
    fn events_stand_one_behind_the_other_with_their_fields() {
        let body = "\u{feff}{\"event\":\"one\\n\",\"time\":\"1.5\",\"host\":\"web\",\"index\":7}\
            {\"event\": {\"a\" : 1.0}, \"time\":null,\"fields\":{\"b\":\"c\",\"n\":1,\"t\":true,\"l\":[\"x\"],\"z\":null}}\r\n \
            {\"event\":\"\\ud800\",\"sourcetype\":\"s\",\"source\":null,\"more\":{\"event\":{}}}\n{\"event\":0}";
        let events = read(body).unwrap();
        assert_eq!(
            shown(&events),
            [
                ("one\n", 1_500_000_000, vec![("host", "web"), ("index", "7")]),
                ("{\"a\" : 1.0}", 0, vec![("b", "c"), ("n", "1"), ("t", "true"), ("l", "[\"x\"]")]),
                ("\u{fffd}", 0, vec![("sourcetype", "s")]),
                ("0", 0, vec![]),
            ]
        );
    }

    #[test]
    fn a_wrong_event_refuses_the_request_by_its_code_and_place() {
        let good = "{\"event\":\"good\"}";
        for (body, code, place) in [
            ("", Code::NoData, None),
            (" \n", Code::NoData, None),
            ("x", Code::InvalidDataFormat, Some(0)),
            ("[{\"event\":\"a\"}]", Code::InvalidDataFormat, Some(0)),
            ("null", Code::InvalidDataFormat, Some(0)),
            ("{}", Code::EventRequired, Some(0)),
            ("{\"event\":null}", Code::EventRequired, Some(0)),
            ("{\"Event\":\"a\"}", Code::EventRequired, Some(0)),
            ("{\"event\":\"\"}", Code::EventBlank, Some(0)),
            ("{\"event\":\"a\",\"event\":\"b\"}", Code::InvalidDataFormat, Some(0)),
            ("{\"event\":\"a\",\"time\":{}}", Code::InvalidDataFormat, Some(0)),
            ("{\"event\":\"a\",\"time\":\"now\"}", Code::InvalidDataFormat, Some(0)),
            ("{\"event\":\"a\",\"time\":1e400}", Code::InvalidDataFormat, Some(0)),
            ("{\"event\":\"a\",\"host\":[]}", Code::InvalidDataFormat, Some(0)),
            ("{\"event\":\"a\",\"fields\":[]}", Code::IndexedFields, Some(0)),
            ("{\"event\":\"a\",\"fields\":{\"b\":{}}}", Code::IndexedFields, Some(0)),
            ("{\"event\":\"much longer than it may be\"}", Code::InvalidDataFormat, Some(0)),
        ] {
            let rejected = read(body).unwrap_err();
            assert_eq!((rejected.code, rejected.event), (code, place), "{body}");
            if place.is_some() {
                let rejected = read(&format!("{good}{body}")).unwrap_err();
                assert_eq!((rejected.code, rejected.event), (code, Some(1)), "{body}");
            }
        }
        assert!(read(&format!("{good},{good}")).is_err() && read(&format!("{good}{{\"event\"")).is_err());
        assert!(read(&format!("{{\"event\":{}", "[".repeat(1 << 20))).is_err());
    }

    #[test]
    fn lines_have_what_the_query_says() {
        let defaults = Defaults::of_query("channel=x&host=web&index=main&time=2&other=y&source=a%20b");
        let events = raw(b"one\r\n\ntwo\xff", &defaults, LIMITS).unwrap();
        let found: Vec<_> = events.iter().map(|event| (event.message, event.time_ns)).collect();
        assert_eq!(found, [(&b"one"[..], 2_000_000_000), (b"two\xff", 2_000_000_000)]);
        let fields: Vec<_> = events.iter().next().unwrap().fields.collect();
        assert_eq!(fields, [("host", "web"), ("source", "a b"), ("index", "main")]);
        assert_eq!(raw(b"\n\r\n", &defaults, LIMITS).unwrap_err().code, Code::NoData);
        assert!(raw(&[b'x'; 21], &defaults, LIMITS).unwrap_err().is_too_large);
    }
}
