//! What the SPEC of the sink says.

use bbq_format::Format;

/// When messages are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    /// The command has read them.
    Read,
    /// It has acknowledged their lines.
    Line,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Of the sink, for the log.
    pub(super) name: String,
    /// The command with its arguments.
    pub(super) shell_command: String,
    pub(super) format: Format,
    pub(super) ack: Ack,
}

impl Settings {
    /// What the command finds in its environment: a program that needs other options can say so, instead of losing messages.
    pub(super) fn options(&self) -> String {
        let ack = match self.ack {
            Ack::Read => "read",
            Ack::Line => "line",
        };
        let format = match self.format {
            Format::Raw => "raw",
            _ => "json",
        };
        format!("ack={ack} format={format}")
    }
}
