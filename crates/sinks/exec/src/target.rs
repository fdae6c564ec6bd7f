//! The SPEC `exec:COMMAND`.

use std::sync::Arc;

use bbq_sink::{DEAD_LETTERS_OPTION, FORMAT_WORDS, Kind, Now, OpenError, Sink, Target, format_option};
use bbq_spec::{ConfigError, Query, SpecOption, Values};
use bbq_storage::Storage;

use super::settings::{Ack, Settings};
use super::sink::ExecSink;

const ACK_WORDS: [(&str, Ack); 2] = [("read", Ack::Read), ("line", Ack::Line)];

/// `exec:COMMAND`
pub static EXEC: Kind = Kind {
    word: "exec",
    argument: "COMMAND",
    summary: "runs a command, and writes to its standard input",
    options: &[&[
        format_option("raw"),
        DEAD_LETTERS_OPTION,
        SpecOption {
            key: "ack",
            values: Values::Words(&["read", "line"]),
            default: "read",
            meaning: "when a message counts as delivered: when the command has read it (`read`), or has written the number of the message's line (`line`)",
        },
        SpecOption {
            key: "arguments",
            values: Values::Text { form: "TEXT", pattern: "" },
            default: "none",
            meaning: "text that follows the command, after a blank; it may have a `?`. Text with an `&` works only in a table",
        },
    ]],
    is_exclusive: false,
    parse,
};

fn parse(command: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    if command.trim().is_empty() {
        return Err(ConfigError::new("exec: has no COMMAND; write exec:COMMAND"));
    }
    if command.chars().any(char::is_control) {
        return Err(ConfigError::new(format!(
            "{:?}: a command has one line without control characters; write the lines to a script, or to arguments",
            format!("exec:{command}")
        )));
    }
    let format = query.take_word("format", &FORMAT_WORDS)?.unwrap_or_default();
    let ack = query.take_word("ack", &ACK_WORDS)?.unwrap_or(Ack::Read);
    let arguments = query.take("arguments", |text| match text.contains('\0') {
        true => Err("a command cannot have a byte 0".to_owned()),
        false => Ok(text.to_owned()),
    })?;
    let shell_command = arguments.map_or_else(|| command.to_owned(), |rest| format!("{command} {rest}"));
    Ok(Arc::new(Settings { name: query.name().to_owned(), shell_command, format, ack }))
}

impl Target for Settings {
    fn open(&self, _: &Arc<dyn Storage>, _: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let sink = ExecSink::new(self.clone()).map_err(OpenError::NotYet)?;
        Ok(Box::new(sink))
    }
}
