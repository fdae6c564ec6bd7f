//! What a line of a file is: text, or a line that a container runtime has written around a text.
//!
//! ```text
//! plain    text
//! cri      2016-10-06T00:17:09.669794202Z stdout F text             F: the line ends here; P: it goes on in the next one
//! docker   {"log":"text\n","stream":"stdout","time":"2016-10-06T00:17:09.669794202Z"}        without \n it goes on
//! ```

use std::borrow::Cow;

use bbq_wire::batch::{Detail, Output};
use serde::Deserialize;

use crate::rfc3339;

/// How the lines of a file are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Plain,
    Cri,
    Docker,
    /// As its first line is.
    Auto,
}

/// A line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) text: Cow<'a, [u8]>,
    pub(crate) detail: Detail,
    /// Whether it goes on in the next line of the same output.
    pub(crate) is_partial: bool,
}

#[derive(Deserialize)]
struct DockerLine<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
    #[serde(borrow, default)]
    stream: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Cow<'a, str>,
}

impl Format {
    /// The format of a file that begins with these bytes; `None` if that cannot be told before more of them come.
    pub(crate) fn of(self, beginning: &[u8]) -> Option<Format> {
        if self != Format::Auto {
            return Some(self);
        }
        let first = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if first.starts_with(b"{\"log\":") {
            return Some(Format::Docker);
        }
        if cri(first).is_some() {
            return Some(Format::Cri);
        }
        // The first line may be half of one.
        (first.len() < beginning.len() || first.len() > 64).then_some(Format::Plain)
    }

    /// Reads a line without its line feed. A line that is not of the format is a text.
    pub(crate) fn line(self, line: &[u8]) -> Line<'_> {
        let read = match self {
            Format::Cri => cri(line),
            Format::Docker => docker(line),
            Format::Plain | Format::Auto => None,
        };
        let text = || Line {
            text: Cow::Borrowed(line.strip_suffix(b"\r").unwrap_or(line)),
            detail: Detail::default(),
            is_partial: false,
        };
        read.unwrap_or_else(text)
    }
}

fn cri(line: &[u8]) -> Option<Line<'_>> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let time_ns = rfc3339::parse(fields.next()?)?;
    let output = output_of(fields.next()?)?;
    // Tags may follow the first one behind colons.
    let is_partial = match fields.next()?.split(|byte| *byte == b':').next()? {
        b"P" => true,
        b"F" => false,
        _ => return None,
    };
    let text = fields.next().unwrap_or_default();
    let text = if is_partial { text } else { text.strip_suffix(b"\r").unwrap_or(text) };
    Some(Line { text: Cow::Borrowed(text), detail: Detail { time_ns, output }, is_partial })
}

fn docker(line: &[u8]) -> Option<Line<'_>> {
    let DockerLine { log, stream, time } = serde_json::from_slice(line).ok()?;
    let detail = Detail {
        time_ns: rfc3339::parse(time.as_bytes()).unwrap_or(0),
        output: output_of(stream.as_bytes()).unwrap_or_default(),
    };
    let is_partial = !log.ends_with('\n');
    let trim = |text: &str| -> usize {
        let text = text.strip_suffix('\n').unwrap_or(text);
        if is_partial { text.len() } else { text.strip_suffix('\r').unwrap_or(text).len() }
    };
    let text = match log {
        Cow::Borrowed(log) => Cow::Borrowed(&log.as_bytes()[..trim(log)]),
        Cow::Owned(mut log) => {
            log.truncate(trim(&log));
            Cow::Owned(log.into_bytes())
        }
    };
    Some(Line { text, detail, is_partial })
}

fn output_of(word: &[u8]) -> Option<Output> {
    match word {
        b"stdout" => Some(Output::Stdout),
        b"stderr" => Some(Output::Stderr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-01-01T00:00:00.000000007Z";
    const NS: u64 = 1_767_225_600_000_000_007;

    fn read(format: Format, line: &str) -> (String, u64, Output, bool) {
        let line = format.line(line.as_bytes());
        let text = String::from_utf8_lossy(&line.text).into_owned();
        (text, line.detail.time_ns, line.detail.output, line.is_partial)
    }

    #[test]
    fn lines_of_both_runtimes_are_read() {
        let whole = |text: &str, output| (text.to_owned(), NS, output, false);
        assert_eq!(read(Format::Cri, &format!("{TIME} stdout F a b")), whole("a b", Output::Stdout));
        assert_eq!(read(Format::Cri, &format!("{TIME} stderr F ")), whole("", Output::Stderr));
        assert_eq!(read(Format::Cri, &format!("{TIME} stdout F:x a\r")), whole("a", Output::Stdout));
        assert!(read(Format::Cri, &format!("{TIME} stdout P a")).3);
        let docker = |log: &str| format!("{{\"log\":\"{log}\",\"stream\":\"stderr\",\"time\":\"{TIME}\"}}");
        assert_eq!(read(Format::Docker, &docker("a\\tb\\n")), whole("a\tb", Output::Stderr));
        assert_eq!(read(Format::Docker, &docker("a\\r\\n")), whole("a", Output::Stderr));
        assert!(read(Format::Docker, &docker("a")).3);
    }

    #[test]
    fn what_is_no_line_of_the_format_is_a_text() {
        let text = |text: &str| (text.to_owned(), 0, Output::Unknown, false);
        for line in
            ["", "hello", "2026-01-01T00:00:00Z stdin F a", "2026-01-01T00:00:00Z stdout X a", "{\"log\":1}"]
        {
            assert_eq!(read(Format::Cri, line), text(line));
            assert_eq!(read(Format::Docker, line), text(line));
        }
    }

    #[test]
    fn the_first_line_tells_the_format() {
        let of = |text: &str| Format::Auto.of(text.as_bytes());
        assert_eq!(of(&format!("{TIME} stdout F a\n")), Some(Format::Cri));
        assert_eq!(of("{\"log\":\"a"), Some(Format::Docker));
        assert_eq!(of("{\"level\":1}\n"), Some(Format::Plain));
        assert_eq!(of("2026-01"), None);
        assert_eq!(Format::Plain.of(b"{\"log\":"), Some(Format::Plain));
    }
}
