//! What the SPEC of the sink says.

use super::run::Ack;
use crate::format::Format;

#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// As in the SPEC, for the log.
    pub(super) command: String,
    /// The same with its arguments.
    pub(super) shell_command: String,
    pub(super) format: Format,
    pub(super) ack: Ack,
}
