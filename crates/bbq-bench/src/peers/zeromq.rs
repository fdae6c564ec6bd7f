//! ZeroMQ PUSH/PULL by a program in C, bench/peers/zeromq.c, as the server and as its client.

use super::floor::{Floor, available_in};
use super::tools;
use crate::sample::Sample;
use crate::settings::Settings;

/// The program, compiled.
#[derive(Debug, Clone)]
pub(crate) struct Zeromq(Floor);

/// Compiles it, if peers are asked for.
pub(crate) fn available(settings: &Settings, left_out: &mut Vec<String>) -> Option<Zeromq> {
    available_in("bench/peers", settings, "zeromq", left_out).map(Zeromq)
}

impl Zeromq {
    /// Runs the one that pulls under the one that pushes.
    pub(crate) fn measure(&self, settings: &Settings, message_bytes: u64) -> anyhow::Result<Sample> {
        self.0.measure(settings, &["pull"], false, |server| {
            let mut command = self.0.command();
            command.args([server.port().to_string(), "push".to_owned(), message_bytes.to_string()]);
            command.arg(settings.duration.as_millis().max(1).to_string());
            // A thread of its own, and the library's.
            tools::send("zeromq-push", &mut command, settings, (2, message_bytes))
        })
    }
}
