//! The line of a record. Its parts may be added in any order.

use std::cell::Cell;
use std::fmt::{self, Write};
use std::time::SystemTime;

use super::Format;
use super::timestamp;

/// A thread reuses its buffers for the next record unless one has grown beyond this.
const KEPT_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    static KEPT: Cell<Option<Box<Line>>> = const { Cell::new(None) };
}

/// A value of a field.
pub(super) enum Value<'a> {
    /// A number or boolean: without quotation marks in both formats.
    Plain(&'a dyn fmt::Display),
    /// Text: in quotation marks.
    Text(&'a str),
    /// Any other value: as its type formats it, in JSON in quotation marks.
    Formatted(fmt::Arguments<'a>),
}

#[derive(Default)]
pub(super) struct Line {
    format: Format,
    /// Escaped, without quotation marks.
    message: String,
    /// `a=1 b="x"`, or `"a":1,"b":"x"`.
    fields: String,
    /// The spans around the record: `outer{a=1}:inner`, or `{"name":"outer","fields":{"a":1}},{"name":"inner"}`.
    spans: String,
    whole: String,
}

/// Makes a line with the thread's buffers. A nested call gets buffers of its own.
pub(super) fn with_line<T>(format: Format, make: impl FnOnce(&mut Line) -> T) -> T {
    // A thread that is ending has no buffers any more.
    let mut line = KEPT.try_with(Cell::take).ok().flatten().unwrap_or_default();
    line.format = format;
    let made = make(&mut line);
    let buffers = [&mut line.message, &mut line.fields, &mut line.spans, &mut line.whole];
    if buffers.iter().all(|buffer| buffer.capacity() <= KEPT_BYTES_MAX) {
        buffers.into_iter().for_each(String::clear);
        let _kept = KEPT.try_with(|kept| kept.set(Some(line)));
    }
    made
}

impl Line {
    pub(super) fn set_message(&mut self, message: fmt::Arguments<'_>) {
        escape(&mut self.message, self.format, message);
    }

    pub(super) fn add_field(&mut self, name: &str, value: &Value<'_>) {
        add_field(&mut self.fields, self.format, name, value);
    }

    /// Adds the next inner span, with fields as [`add_field`] writes them.
    #[cfg(feature = "tracing")]
    pub(super) fn add_span(&mut self, name: &str, fields: &str) {
        let out = &mut self.spans;
        match self.format {
            Format::Text => {
                separate(out, ":");
                out.push_str(name);
                if !fields.is_empty() {
                    out.extend(["{", fields, "}"]);
                }
            }
            Format::Json => {
                separate(out, ",");
                out.push_str("{\"name\":\"");
                escape(out, Format::Json, format_args!("{name}"));
                out.push('"');
                if !fields.is_empty() {
                    out.extend([",\"fields\":{", fields, "}"]);
                }
                out.push('}');
            }
        }
    }

    pub(super) fn finish(&mut self, time: SystemTime, level: &str, target: &str) -> &[u8] {
        let Line { format, message, fields, spans, whole } = self;
        match format {
            Format::Text => {
                timestamp::write(whole, time);
                whole.extend([" ", level, " "]);
                escape(whole, Format::Text, format_args!("{target}"));
                whole.push_str(": ");
                if !spans.is_empty() {
                    whole.extend([spans, ": "]);
                }
                whole.push_str(message);
                if !fields.is_empty() {
                    let space = if message.is_empty() { "" } else { " " };
                    whole.extend([space, fields]);
                }
            }
            Format::Json => {
                whole.push_str("{\"time\":\"");
                timestamp::write(whole, time);
                whole.extend(["\",\"level\":\"", level, "\",\"target\":\""]);
                escape(whole, Format::Json, format_args!("{target}"));
                whole.extend(["\",\"message\":\"", message, "\""]);
                if !fields.is_empty() {
                    whole.extend([",\"fields\":{", fields, "}"]);
                }
                if !spans.is_empty() {
                    whole.extend([",\"spans\":[", spans, "]"]);
                }
                whole.push('}');
            }
        }
        whole.as_bytes()
    }
}

pub(super) fn add_field(out: &mut String, format: Format, name: &str, value: &Value<'_>) {
    match format {
        Format::Text => {
            separate(out, " ");
            escape(out, format, format_args!("{name}="));
            match value {
                Value::Plain(plain) => escape(out, format, format_args!("{plain}")),
                // With quotation marks, and no control characters.
                Value::Text(text) => escape(out, format, format_args!("{text:?}")),
                Value::Formatted(formatted) => escape(out, format, *formatted),
            }
        }
        Format::Json => {
            separate(out, ",");
            out.push('"');
            escape(out, format, format_args!("{name}"));
            out.push_str("\":");
            let quoted = |out: &mut String, text| {
                out.push('"');
                escape(out, format, text);
                out.push('"');
            };
            match value {
                Value::Plain(plain) => escape(out, format, format_args!("{plain}")),
                Value::Text(text) => quoted(out, format_args!("{text}")),
                Value::Formatted(formatted) => quoted(out, *formatted),
            }
        }
    }
}

/// Appends fields that [`add_field`] has written.
#[cfg(feature = "tracing")]
pub(super) fn add_fields(out: &mut String, format: Format, fields: &str) {
    separate(out, if format == Format::Text { " " } else { "," });
    out.push_str(fields);
}

fn separate(out: &mut String, separator: &str) {
    if !out.is_empty() {
        out.push_str(separator);
    }
}

/// Appends text, escaped so that it stays in its line, and in JSON in its quotation marks.
fn escape(out: &mut String, format: Format, text: fmt::Arguments<'_>) {
    // If a type fails to format itself, the part that it has written remains.
    let _written = Escaped { out, format }.write_fmt(text);
}

struct Escaped<'a> {
    out: &'a mut String,
    format: Format,
}

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_json = self.format == Format::Json;
        let special = |c: char| c.is_control() || (is_json && (c == '"' || c == '\\'));
        let mut rest = text;
        while let Some(at) = rest.find(special) {
            let (plain, from) = rest.split_at(at);
            self.out.push_str(plain);
            let mut characters = from.chars();
            match characters.next() {
                Some('\n') => self.out.push_str("\\n"),
                Some('\r') => self.out.push_str("\\r"),
                Some('\t') if !is_json => self.out.push('\t'),
                Some(c @ ('"' | '\\')) => self.out.extend(['\\', c]),
                Some(c) if is_json => write!(self.out, "\\u{:04x}", u32::from(c))?,
                Some(c) => write!(self.out, "\\x{:02x}", u32::from(c))?,
                None => {}
            }
            rest = characters.as_str();
        }
        self.out.push_str(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn line(format: Format) -> String {
        with_line(format, |line| {
            line.add_field("number", &Value::Plain(&-1.5));
            line.add_field("text", &Value::Text("a \"b\"\nc"));
            line.set_message(format_args!("two\nlines\tand \"\u{1}\\\u{e9}"));
            line.add_field("other", &Value::Formatted(format_args!("{:?}", Some("x"))));
            String::from_utf8_lossy(line.finish(UNIX_EPOCH, "WARN", "app::db")).into_owned()
        })
    }

    #[test]
    fn text_is_one_line() {
        let expected = concat!(
            "1970-01-01T00:00:00.000000Z WARN app::db: two\\nlines\tand \"\\x01\\\u{e9} ",
            r#"number=-1.5 text="a \"b\"\nc" other=Some("x")"#
        );
        assert_eq!(line(Format::Text), expected);
        assert_eq!(line(Format::Text), expected, "something was left of the one before");
    }

    #[test]
    fn json_is_json() {
        let expected = concat!(
            r#"{"time":"1970-01-01T00:00:00.000000Z","level":"WARN","target":"app::db","message":"two\nlines"#,
            "\\u0009and \\\"\\u0001\\\\\u{e9}",
            r#"","fields":{"number":-1.5,"text":"a \"b\"\nc","other":"Some(\"x\")"}}"#
        );
        assert_eq!(line(Format::Json), expected);
    }

    #[test]
    fn a_line_that_is_made_while_another_is_keeps_both() {
        struct Nested;
        impl fmt::Display for Nested {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let inner = with_line(Format::Text, |line| {
                    line.set_message(format_args!("inner"));
                    line.finish(UNIX_EPOCH, "INFO", "a").len()
                });
                write!(f, "outer around {inner}")
            }
        }
        let whole = with_line(Format::Text, |line| {
            line.set_message(format_args!("{Nested}"));
            String::from_utf8_lossy(line.finish(UNIX_EPOCH, "INFO", "a")).into_owned()
        });
        assert_eq!(whole, "1970-01-01T00:00:00.000000Z INFO a: outer around 41");
    }
}
