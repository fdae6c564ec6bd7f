//! Objects of GELF, one or some of them one behind the other, and what a request that has them is answered.
//!
//! The message is `short_message`, with `full_message` behind it; the other members are its fields.

use std::borrow::Cow;

use bbq_wire::batch::Events;

use crate::answer::{Answer, Trouble};
use crate::collected::{Collected, TooMuch};
use crate::json::{self, Members, is_object, scalar, trimmed};
use crate::limits::Limits;
use crate::time;

/// Why nothing of a request is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GelfError {
    /// It has no message.
    #[error("the body is empty")]
    Empty,
    /// A message is no GELF.
    #[error("message {number} is no GELF: {why}")]
    Malformed {
        /// Its place, from 0.
        number: usize,
        /// What is wrong.
        why: String,
    },
    /// A message is too long.
    #[error("message {number} is longer than message_bytes_max")]
    TooLong {
        /// Its place, from 0.
        number: usize,
    },
    /// All together are too large.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
}

/// What becomes of an object without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Nothing is taken.
    IsRefused,
    /// Its text is the message.
    IsStored,
}

/// Reads a request.
///
/// # Errors
/// Why nothing of it can be taken.
pub fn messages(body: &[u8], limits: Limits) -> Result<Events, GelfError> {
    let mut collected = Collected::new(limits);
    objects(body, Missing::IsRefused, &mut collected)?;
    Ok(collected.events)
}

/// Reads objects.
///
/// # Errors
/// Why no more is taken. Those before are collected.
pub(super) fn objects(text: &[u8], missing: Missing, collected: &mut Collected) -> Result<(), GelfError> {
    let text = trimmed(text);
    if text.is_empty() {
        return Err(GelfError::Empty);
    }
    let mut found = serde_json::Deserializer::from_slice(text).into_iter::<Members<'_>>();
    for number in 0.. {
        let malformed = |why: String| GelfError::Malformed { number, why };
        let rest = text.get(found.byte_offset()..).unwrap_or_default().trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        if !is_object(rest) {
            return Err(malformed("it is no object".to_owned()));
        }
        let members = match found.next() {
            Some(Ok(members)) => members,
            Some(Err(error)) => return Err(malformed(error.to_string())),
            None => break,
        };
        let object = text.get(text.len() - rest.len()..found.byte_offset()).unwrap_or_default();
        take(number, (&members, object), missing, collected)?;
    }
    Ok(())
}

fn take(
    number: usize,
    (Members(members), object): (&Members<'_>, &[u8]),
    missing: Missing,
    collected: &mut Collected,
) -> Result<(), GelfError> {
    let (mut short, mut full, mut time_ns) = (None, None, 0);
    let mut fields = Vec::with_capacity(members.len());
    for (name, value) in members {
        match &**name {
            // Graylog takes both names.
            "short_message" | "message" => short = short.or(json::text(value)),
            "full_message" => full = json::text(value),
            "timestamp" => {
                time_ns = scalar(value).and_then(|time| time::of_any_unit(&time)).unwrap_or(0);
            }
            "version" => {}
            _ if value.get() == "null" => {}
            // What is no scalar stays as JSON.
            _ => fields.push((&**name, scalar(value).unwrap_or(Cow::Borrowed(value.get())))),
        }
    }
    let full = full.filter(|full| !full.is_empty());
    let message = match (short.filter(|short| !short.trim().is_empty()), full) {
        (Some(short), Some(full)) if full.starts_with(&*short) => full,
        (Some(short), Some(full)) => Cow::Owned(format!("{short}\n{full}")),
        (Some(short), None) => short,
        (None, _) if missing == Missing::IsRefused => {
            return Err(GelfError::Malformed { number, why: "it has no `short_message`".to_owned() });
        }
        (None, Some(full)) => full,
        (None, None) => String::from_utf8_lossy(object),
    };
    if !collected.fits(message.as_bytes()) {
        return Err(GelfError::TooLong { number });
    }
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
    Ok(collected.push(message.as_bytes(), time_ns, &fields)?)
}

impl GelfError {
    /// What the sender is answered.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let trouble = match self {
            GelfError::Empty | GelfError::Malformed { .. } => Trouble::Malformed,
            GelfError::TooLong { .. } | GelfError::TooMuch(_) => Trouble::TooLarge,
        };
        refused(trouble, &self.to_string())
    }
}

/// All messages are stored.
#[must_use]
pub fn taken() -> Answer {
    Answer::empty(202)
}

/// Nothing is stored.
#[must_use]
pub fn refused(trouble: Trouble, why: &str) -> Answer {
    Answer::text(trouble.status(), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Events, GelfError> {
        messages(body.as_bytes(), Limits { message_bytes_max: 40, bytes_max: 10_000 })
    }

    #[test]
    fn a_message_has_the_other_members_as_fields() {
        let body = r#"{"version":"1.1","host":"web","short_message":"short","full_message":"the\nwhole","timestamp":1385053862.3072,
            "level":1,"_user_id":9001,"_some":{"a":[1]},"_none":null,"_half":"\udc00"}
            {"short_message":"a","full_message":"a and more"}{"message":"b","timestamp":"x","full_message":""}"#;
        let events = read(body).unwrap();
        let found: Vec<_> = events
            .iter()
            .map(|event| (event.message, event.time_ns, event.fields.collect::<Vec<_>>()))
            .collect();
        let fields = vec![
            ("host", "web"),
            ("level", "1"),
            ("_user_id", "9001"),
            ("_some", "{\"a\":[1]}"),
            ("_half", "\u{fffd}"),
        ];
        assert_eq!(
            found,
            [
                (&b"short\nthe\nwhole"[..], 1_385_053_862_307_200_000, fields),
                (b"a and more", 0, vec![]),
                (b"b", 0, vec![]),
            ]
        );
    }

    #[test]
    fn what_is_no_gelf_is_refused() {
        for (body, status) in [
            ("", 400),
            ("x", 400),
            ("[]", 400),
            ("null", 400),
            ("{}", 400),
            ("{\"short_message\":null}", 400),
            ("{\"short_message\":1}", 400),
            ("{\"short_message\":\" \"}", 400),
            ("{\"ShortMessage\":\"a\"}", 400),
            ("{\"short_message\":\"a\"}[]", 400),
            ("{\"short_message\":\"a\"", 400),
            ("{\"short_message\":\"a much longer text than the listener takes\"}", 413),
        ] {
            assert_eq!(read(body).unwrap_err().answer().status, status, "{body}");
        }
        let many = format!("{{{}\"short_message\":\"a\"}}", "\"a\":0,".repeat(5000));
        assert!(read(&many).is_err());
    }
}
