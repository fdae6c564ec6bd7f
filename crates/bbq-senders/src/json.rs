//! JSON whose values stay as they came: members of objects, elements of arrays, and the texts in them.
//!
//! Invariant: nesting costs no stack, as values are skipped and not built.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Members that an object may have whose members are all kept: each takes some 100 bytes, however short it is.
pub(crate) const MEMBERS_MAX: usize = 1024;

/// The members of an object, in order. A name that comes twice is there twice.
#[derive(Debug)]
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

/// A name, which is copied only if it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads an object.
///
/// # Errors
/// It is none, or has too many members.
pub(crate) fn members(value: &RawValue) -> Result<Members<'_>, serde_json::Error> {
    serde_json::from_str(value.get())
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {MEMBERS_MAX} members")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    if members.len() == MEMBERS_MAX {
                        return Err(A::Error::invalid_length(MEMBERS_MAX + 1, &self));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The text without a byte order mark and white space at its ends.
pub(crate) fn trimmed(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii()
}

/// Whether a text of JSON is an object. What derives `Deserialize` also takes an array for one.
pub(crate) fn is_object(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'{')
}

/// Why elements were not all read.
#[derive(Debug)]
pub(crate) enum NotEach<E> {
    /// It is no array of such elements.
    Json(serde_json::Error),
    /// `take` refused one.
    Refused(E),
}

/// Gives each element of an array to `take`, without holding them.
pub(crate) fn each<'a, T: Deserialize<'a>, E>(
    array: &'a RawValue,
    take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), NotEach<E>> {
    struct Each<'e, T, E, F> {
        take: F,
        refused: &'e mut Option<E>,
        element: PhantomData<T>,
    }
    impl<'de, T: Deserialize<'de>, E, F: FnMut(T) -> Result<(), E>> Visitor<'de> for Each<'_, T, E, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
            while let Some(element) = elements.next_element()? {
                if let Err(why) = (self.take)(element) {
                    *self.refused = Some(why);
                    return Err(A::Error::custom("refused"));
                }
            }
            Ok(())
        }
    }
    let mut refused = None;
    let visitor = Each { take, refused: &mut refused, element: PhantomData };
    let mut deserializer = serde_json::Deserializer::from_str(array.get());
    let read = deserializer.deserialize_seq(visitor);
    match (read, refused) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(why)) => Err(NotEach::Refused(why)),
        (Err(error), None) => Err(NotEach::Json(error)),
    }
}

/// The text that a value is; `None` if it is no text. Half of a surrogate pair, which no UTF-8 has, becomes U+FFFD: some programs write it for
/// bytes that they could not read, and the rest of the text is worth keeping.
pub(crate) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { Some(Cow::Owned(unescaped(inner))) } else { Some(Cow::Borrowed(inner)) }
}

/// A text as text, a number or a truth value as it came; `None` for an object, an array or null.
pub(crate) fn scalar(value: &RawValue) -> Option<Cow<'_, str>> {
    match value.get().as_bytes().first() {
        Some(b'"') => text(value),
        Some(b'{' | b'[' | b'n') | None => None,
        Some(_) => Some(Cow::Borrowed(value.get())),
    }
}

/// A text without its escapes, which are valid.
fn unescaped(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((before, escape)) = rest.split_once('\\') {
        out.push_str(before);
        let (character, behind) = unescape(escape);
        out.push(character);
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Reads what is behind a backslash.
fn unescape(escape: &str) -> (char, &str) {
    let mut characters = escape.chars();
    let character = match characters.next() {
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => return unescape_unicode(&escape[1..]),
        Some(other) => other,
        None => char::REPLACEMENT_CHARACTER,
    };
    (character, characters.as_str())
}

/// Reads the four digits behind `\u`, and those of the other half of a pair.
fn unescape_unicode(digits: &str) -> (char, &str) {
    let unit = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let Some(first) = unit(digits) else { return (char::REPLACEMENT_CHARACTER, digits) };
    let behind = &digits[4..];
    if let Some(character) = char::from_u32(first) {
        return (character, behind);
    }
    let second = behind.strip_prefix("\\u").and_then(unit).filter(|unit| (0xdc00..0xe000).contains(unit));
    match second {
        Some(second) if first < 0xdc00 => {
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), &behind[6..])
        }
        _ => (char::REPLACEMENT_CHARACTER, behind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn texts_come_without_escapes_and_half_a_pair_is_replaced() {
        for (json, expected) in [
            (r#""plain""#, "plain"),
            (r#""a\"\\\/\b\f\n\r\tz""#, "a\"\\/\u{8}\u{c}\n\r\tz"),
            (r#""\u00e9\ud83d\ude00.""#, "\u{e9}\u{1f600}."),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ud83dx""#, "\u{fffd}x"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\u0000""#, "\0"),
            (r#""""#, ""),
        ] {
            assert_eq!(text(&raw(json)).unwrap(), expected, "{json}");
        }
        for other in ["1", "null", "true", "{}", "[]"] {
            assert_eq!(text(&raw(other)), None);
        }
        assert_eq!(scalar(&raw("-1.50e3")).unwrap(), "-1.50e3");
        assert_eq!(scalar(&raw("true")).unwrap(), "true");
        assert!(scalar(&raw("null")).is_none() && scalar(&raw("[1]")).is_none());
    }

    #[test]
    fn what_serde_reads_is_read_alike() {
        for json in [r#""\u0041\u00df\u6771""#, r#""\ud834\udd1e\\u0041""#, r#""\\\\\"\\n""#] {
            let value = raw(json);
            assert_eq!(text(&value).unwrap(), serde_json::from_str::<String>(json).unwrap());
        }
    }

    #[test]
    fn members_are_in_order_and_have_a_limit() {
        let value = raw(r#"{"b":1,"a":[{}],"b":null}"#);
        let Members(found) = members(&value).unwrap();
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, value.get())).collect();
        assert_eq!(found, [("b", "1"), ("a", "[{}]"), ("b", "null")]);
        let many = format!("{{{}\"z\":0}}", "\"a\":0,".repeat(MEMBERS_MAX));
        assert!(members(&raw(&many)).is_err());
        assert!(members(&raw("[]")).is_err());
    }

    #[test]
    fn elements_are_taken_one_by_one_until_one_is_refused() {
        let value = raw("[1,2,3,4]");
        let mut sum = 0;
        assert!(
            each(&value, |number: u32| {
                sum += number;
                Ok::<_, ()>(())
            })
            .is_ok()
        );
        assert_eq!(sum, 10);
        let until = |max| each(&value, move |number: u32| if number > max { Err(number) } else { Ok(()) });
        assert!(matches!(until(2), Err(NotEach::Refused(3))));
        assert!(matches!(each(&value, |_: String| Ok::<_, ()>(())), Err(NotEach::Json(_))));
        assert!(matches!(each(&raw("{}"), |_: u32| Ok::<_, ()>(())), Err(NotEach::Json(_))));
    }
}
