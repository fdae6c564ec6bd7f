//! A message as a line for people, or as the server's JSON.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::safe_text::safe_json;
use serde::Deserialize;
use serde_json::Value;

/// Of a time, up to the milliseconds: `2026-01-31T12:00:00.123`.
const TIME_CHARACTERS: usize = 23;

pub(super) struct Printer {
    is_json: bool,
    has_colours: bool,
}

/// What of a line people see. All but `skipped`, `where_failed` and `why` is of a message.
#[derive(Deserialize)]
struct Line {
    skipped: Option<u64>,
    /// For how many messages the expression failed, and why.
    where_failed: Option<u64>,
    #[serde(default)]
    why: String,
    time: Option<String>,
    #[serde(default)]
    listener: String,
    peer: Option<String>,
    peer_pid: Option<u32>,
    severity: Option<String>,
    appname: Option<String>,
    procid: Option<String>,
    /// Of syslog: the text behind the header.
    msg: Option<String>,
    message: Option<String>,
    message_base64: Option<String>,
    message_bytes: Option<u64>,
    /// Of OpenTelemetry.
    body: Option<Value>,
}

impl Printer {
    pub(super) fn new(is_json: bool, has_colours: bool) -> Printer {
        Printer { is_json, has_colours }
    }

    /// Prints a message. Returns a text for standard error if the line is none.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn print(&self, line: &[u8], out: &mut dyn Write) -> io::Result<Option<String>> {
        if line.is_empty() {
            return Ok(None);
        }
        let Ok(read) = serde_json::from_slice::<Line>(line) else {
            return Ok(Some("the server sent a line that does not belong to a tail".to_owned()));
        };
        if let Some(skipped) = read.skipped {
            let why = "more messages came than the server had time for, or than a viewer gets";
            return Ok(Some(format!("{skipped} messages were skipped: {why}")));
        }
        if let Some(failed) = read.where_failed {
            let why = safe(&read.why);
            return Ok(Some(format!(
                "the expression of --where failed for {failed} messages, which are shown, as rules keep them: {why}"
            )));
        }
        let text =
            if self.is_json { safe_json(line).into_owned() } else { self.of_message(&read).into_bytes() };
        out.write_all(&text)?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(None)
    }

    fn of_message(&self, line: &Line) -> String {
        let time = line.time.as_deref().unwrap_or_default();
        let time = format!("{}Z", time.get(..TIME_CHARACTERS).unwrap_or(time));
        let mut text = self.coloured(&time, "2");
        let _infallible = write!(text, " {}", self.coloured(&safe(&line.listener), "36"));
        let pid = || line.peer_pid.map(|pid| format!("pid:{pid}"));
        if let Some(peer) = line.peer.clone().or_else(pid) {
            let _infallible = write!(text, " {}", self.coloured(&safe(&peer), "2"));
        }
        if let Some(severity) = &line.severity {
            let colour = match severity.as_str() {
                "emerg" | "alert" | "crit" | "err" | "ERROR" | "FATAL" => "1;31",
                "warning" | "WARN" => "33",
                _ => "0",
            };
            let _infallible = write!(text, " {}", self.coloured(&safe(severity), colour));
        }
        let message = match (&line.message, &line.body, &line.message_base64) {
            (Some(message), ..) => safe(message.trim_end_matches('\n')),
            (None, Some(Value::String(body)), _) => safe(body),
            (None, Some(body), _) => safe(&body.to_string()),
            (None, None, Some(base64)) => format!("base64:{base64}"),
            (None, None, None) => String::new(),
        };
        // In a message of syslog the header has the program; an entry of the journal has no header.
        if let (Some(program), None) = (&line.appname, &line.msg) {
            let pid = line.procid.as_deref().map(|pid| format!("[{pid}]")).unwrap_or_default();
            let _infallible = write!(text, " {}{}:", safe(program), safe(&pid));
        }
        let _infallible = write!(text, " {message}");
        if let Some(bytes) = line.message_bytes {
            let _infallible = write!(text, " ... ({bytes} bytes)");
        }
        text
    }

    fn coloured(&self, text: &str, colour: &str) -> String {
        if self.has_colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn safe(text: &str) -> String {
    crate::safe_text::safe(text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(printer: &Printer, line: &str) -> (String, Option<String>) {
        let mut out = Vec::new();
        let warning = printer.print(line.as_bytes(), &mut out).unwrap();
        (String::from_utf8(out).unwrap(), warning)
    }

    #[test]
    fn a_message_is_one_line_that_no_sender_can_colour() {
        let plain = Printer::new(false, false);
        let line = r#"{"time":"2026-01-31T12:00:00.123456789Z","listener":"web","peer":"192.0.2.7:99","severity":"err","message":"a\u001b[31mb\nc\n"}"#;
        let (text, warning) = shown(&plain, line);
        assert_eq!(text, "2026-01-31T12:00:00.123Z web 192.0.2.7:99 err a\\u{1b}[31mb\\nc\n");
        assert_eq!(warning, None);
        assert!(shown(&Printer::new(false, true), line).0.contains("\x1b[1;31merr\x1b[0m a\\u{1b}"));
        assert_eq!(shown(&Printer::new(true, true), line).0, format!("{line}\n"));
    }

    #[test]
    fn an_entry_of_the_journal_is_shown_with_its_program() {
        let plain = Printer::new(false, false);
        let shown_of = |rest: &str| {
            let line = format!("{{\"time\":\"2026-01-31T12:00:00.123456789Z\",\"listener\":\"j\",{rest}}}");
            shown(&plain, &line).0
        };
        assert_eq!(
            shown_of(r#""severity":"err","appname":"sshd","procid":"7","message":"hello""#),
            "2026-01-31T12:00:00.123Z j err sshd[7]: hello\n"
        );
        assert_eq!(
            shown_of(r#""appname":"su","procid":"7","message":"<34>su[7]: hello","msg":"hello""#),
            "2026-01-31T12:00:00.123Z j <34>su[7]: hello\n"
        );
    }

    #[test]
    fn what_is_no_message_goes_elsewhere() {
        let plain = Printer::new(false, false);
        assert_eq!(shown(&plain, ""), (String::new(), None));
        let (text, warning) = shown(&plain, r#"{"skipped":7}"#);
        assert!(text.is_empty() && warning.unwrap().starts_with("7 messages were skipped"));
        let (text, warning) = shown(&plain, r#"{"where_failed":3,"why":"no severity"}"#);
        assert!(text.is_empty() && warning.unwrap().contains("failed for 3 messages"));
        assert!(shown(&plain, "<html>").1.is_some());
    }
}
