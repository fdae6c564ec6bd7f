//! Text of others on a terminal: whoever sends a message, or answers with an error, must not write to the terminal of who looks on.

use std::borrow::Cow;
use std::io::{self, Write};

use bbq_wire::shown::{is_dangerous, shown};

/// Introduces what a terminal obeys.
const ESCAPE: char = '\u{1b}';

/// The text without what a terminal obeys, hides or turns around. A tab stays if `keeps_tabs`.
pub(crate) fn safe(text: &str, keeps_tabs: bool) -> String {
    if keeps_tabs {
        return text.split('\t').map(shown).collect::<Vec<_>>().join("\t");
    }
    shown(text).into_owned()
}

/// The same JSON, in which such characters are escaped, as `\u009b`. They are in texts, as control characters are escaped there.
pub(crate) fn safe_json(json: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(json) else { return Cow::Borrowed(json) };
    // A control character of ASCII is between the values.
    let is_escaped = |character: char| !character.is_ascii() && is_dangerous(character);
    if !text.chars().any(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            // All of them are in the basic plane.
            safe.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe.into_bytes())
}

/// A log, each of whose writes is a line: what is in the line cannot begin another one, or be obeyed.
pub(crate) struct Lines<W> {
    pub(crate) out: W,
    /// The lines have colours. What others say in them is escaped already, but for line feeds and the like.
    pub(crate) has_colours: bool,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let (text, end) = match text.strip_suffix('\n') {
            Some(text) => (text, "\n"),
            None => (&*text, ""),
        };
        let safe = match self.has_colours {
            true => text.split(ESCAPE).map(shown).collect::<Vec<_>>().join("\u{1b}"),
            false => shown(text).into_owned(),
        };
        self.out.write_all((safe + end).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed_hidden_or_turned_around() {
        assert_eq!(safe("a\x1b[31m\u{9b}\u{202e}b\tc", false), "a\\u{1b}[31m\\u{9b}\\u{202e}b\\tc");
        assert_eq!(safe("a\tb\u{2028}\u{2066}\n", true), "a\tb\\u{2028}\\u{2066}\\n");
        assert_eq!(safe("\u{65e5}\u{672c} \u{5d0}\u{5d1}", true), "\u{65e5}\u{672c} \u{5d0}\u{5d1}");
    }

    #[test]
    fn json_stays_the_same_for_who_reads_it() {
        let json = "{\n\t\"a\u{9b}\": \"\u{202e}b \u{65e5}\"}";
        let safe = safe_json(json.as_bytes());
        assert_eq!(&*safe, "{\n\t\"a\\u009b\": \"\\u202eb \u{65e5}\"}".as_bytes());
        let read = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap();
        assert_eq!(read(&safe), read(json.as_bytes()));
    }

    #[test]
    fn a_line_of_a_log_is_one_line() {
        let written = |has_colours, line: &str| {
            let mut lines = Lines { out: Vec::new(), has_colours };
            lines.write_all(line.as_bytes()).unwrap();
            String::from_utf8(lines.out).unwrap()
        };
        assert_eq!(
            written(false, "why=\"x\r\n2026 INFO forged\x1b[2J\"\n"),
            "why=\"x\\r\\n2026 INFO forged\\u{1b}[2J\"\n"
        );
        assert_eq!(written(true, "\x1b[2mINFO\x1b[0m x\n\u{9b}\n"), "\x1b[2mINFO\x1b[0m x\\n\\u{9b}\n");
    }
}
