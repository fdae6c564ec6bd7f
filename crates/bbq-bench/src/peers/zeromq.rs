//! ZeroMQ PUSH/PULL by a program in C, bench/peers/zeromq.c, as the server and as its client.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::floor::{Floor, Made, RunningFloor, make};
use crate::load::Load;
use crate::process::{END_WITHIN, Process};
use crate::settings::Settings;

/// The program, compiled.
#[derive(Debug, Clone)]
pub(crate) struct Zeromq(PathBuf);

/// What the client says at its end.
#[derive(Debug, Deserialize)]
struct Sent {
    sent: u64,
    seconds: f64,
    cpu_user_us: u64,
    cpu_system_us: u64,
}

/// Compiles it, if peers are asked for.
pub(crate) fn available(settings: &Settings, left_out: &mut Vec<String>) -> Option<Zeromq> {
    make(settings, &Made { directory: "bench/peers", program: "zeromq" }, left_out).map(Zeromq)
}

impl Zeromq {
    /// Starts the one that pulls.
    pub(crate) fn start(&self, directory: &Path) -> anyhow::Result<RunningFloor> {
        Floor::of(self.0.clone()).start(directory, &["pull"])
    }

    /// Runs the one that pushes.
    pub(crate) fn push(
        &self,
        settings: &Settings,
        directory: &Path,
        to: &RunningFloor,
        message_bytes: usize,
    ) -> anyhow::Result<Load> {
        let mut command = Command::new(&self.0);
        command.args([to.address().port().to_string(), "push".to_owned(), message_bytes.to_string()]);
        command.arg(settings.duration.as_millis().max(1).to_string());
        let limit = settings.duration + END_WITHIN;
        let sent: Sent = Process::measured("zeromq-push", &mut command, directory, limit)?;
        Ok(Load {
            operations: sent.sent,
            bytes: sent.sent * message_bytes as u64,
            took: Duration::from_secs_f64(sent.seconds),
            cpu: Duration::from_micros(sent.cpu_user_us + sent.cpu_system_us),
            threads: 2, // its own, and the library's
            latency: None,
        })
    }
}
