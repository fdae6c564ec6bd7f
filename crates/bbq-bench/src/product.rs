//! bbq as a whole under test: this program, started again as `bbq serve`.

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::address;
use crate::http;
use crate::leash::{self, End};
use crate::pause::wait_for;
use crate::process::{Output, Process};
use crate::settings::Settings;

/// A server that is not ready within this time never will be.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Without progress for this long, messages are lost or the server hangs.
const DELIVERED_WITHIN: Duration = Duration::from_secs(60);

/// `bbq serve` with its spool, and sinks.
#[derive(Debug)]
pub(crate) struct Product {
    process: Process,
    admin: SocketAddrV4,
    address: SocketAddrV4,
    outputs: Vec<PathBuf>,
}

/// What takes the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sinks {
    /// This many files, each of which gets every message.
    Files(usize),
    /// `null:`, which counts messages and forgets them.
    Null,
    /// A sink that takes nothing, so that all messages stay in the spool.
    Stuck,
}

impl Product {
    /// Starts it on loopback with a listener of this protocol, such as `lines+tcp`, and with these lines of configuration; returns
    /// when it is ready.
    pub(crate) fn start(
        settings: &Settings,
        protocol: &str,
        sinks: Sinks,
        configuration: &str,
    ) -> anyhow::Result<Product> {
        let admin = address::free()?;
        let directory = &settings.directory;
        let file = directory.join("bbq.toml");
        // A file with nothing in it is refused: it may be half written.
        let text = format!("# Written by bbq bench.\n{configuration}");
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(&settings.program);
        command.arg("serve").arg("--config").arg(&file);
        command.arg("--data").arg(directory.join("data"));
        command.args(["--admin", &admin.to_string(), "--workers", &settings.workers.to_string()]);
        command.args(["--listen", &format!("{protocol}://127.0.0.1:0")]);
        let files = match sinks {
            Sinks::Files(count) => count,
            Sinks::Null | Sinks::Stuck => 0,
        };
        let outputs: Vec<PathBuf> =
            (0..files).map(|index| directory.join(format!("output-{index}"))).collect();
        for path in &outputs {
            command.arg("--sink").arg(format!("file:{}", path.display()));
        }
        let stdout = match sinks {
            Sinks::Files(_) => Output::Kept,
            Sinks::Null => {
                command.args(["--sink", "null:"]);
                Output::Kept
            }
            Sinks::Stuck => {
                command.args(["--sink", "stdout:"]);
                Output::Piped // and nobody reads it
            }
        };
        let mut command = leash::put_on(&command, End::Kill)?;
        let process = Process::start("bbq", &mut command, directory, stdout)?;
        let mut product = Product { process, admin, address: admin, outputs };
        let status = wait_for(READY_WITHIN, || {
            product.process.check_alive()?;
            // Refused until it listens.
            Ok(product.status().ok().filter(|status| status["ready"] == Value::Bool(true)))
        })?;
        let status = status.context("bbq serve is not ready")?;
        let listener = listeners(&status).next().context("bbq serve has no listener")?;
        product.address = address::parse(listener["address"].as_str().unwrap_or_default())?;
        Ok(product)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// What `bbq status --json` shows.
    pub(crate) fn status(&self) -> anyhow::Result<Value> {
        let body = http::get(self.admin.into(), "/status")?;
        serde_json::from_slice(&body).context("the status is not JSON")
    }

    /// The first of its files.
    pub(crate) fn output(&self) -> &Path {
        &self.outputs[0]
    }

    /// Bytes in the file that has the least, which costs the server nothing to learn.
    pub(crate) fn written(&self) -> u64 {
        let lengths = self.outputs.iter().map(|path| fs::metadata(path).map_or(0, |file| file.len()));
        lengths.min().unwrap_or(0)
    }

    /// Waits until `messages` were received, handed to every sink, and are in the files; returns the status at that moment.
    ///
    /// Looks first at the files, which costs the server nothing.
    pub(crate) fn wait_delivered(&mut self, messages: u64, bytes: u64) -> anyhow::Result<Value> {
        let written = wait_for(DELIVERED_WITHIN, || {
            self.process.check_alive()?;
            Ok((self.written() >= bytes).then_some(()))
        })?;
        let settled = match written {
            None => None,
            Some(()) => wait_for(DELIVERED_WITHIN, || {
                let status = self.status()?;
                let ledger = &status["ledger"];
                let is_settled = ledger["received"] == messages && ledger["queued"] == 0;
                let mut dropped =
                    ledger["dropped"].as_object().into_iter().flat_map(|reasons| reasons.values());
                anyhow::ensure!(
                    !is_settled || (ledger["delivered"] == messages && dropped.all(|count| *count == 0)),
                    "{messages} messages were sent: ledger {ledger}"
                );
                Ok(is_settled.then_some(status))
            })?,
        };
        settled.with_context(|| {
            let ledger = self.status().map(|status| status["ledger"].to_string()).unwrap_or_default();
            format!("{messages} messages were sent, and not all arrived: ledger {ledger}")
        })
    }

    /// Ends it; returns its processor time from start to end.
    pub(crate) fn stop(mut self) -> anyhow::Result<Duration> {
        self.process.terminate()
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(self) {
        drop(self.process);
    }
}

/// Connections or datagrams that each worker took from its own sockets; empty if the workers share their sockets.
pub(crate) fn shares(status: &Value, workers: usize) -> Vec<u64> {
    let mut shares = vec![0; workers];
    for socket in listeners(status).flat_map(|listener| listener["sockets"].as_array().into_iter().flatten())
    {
        let worker = socket["worker"].as_u64().and_then(|worker| usize::try_from(worker).ok());
        match worker.and_then(|worker| shares.get_mut(worker)) {
            Some(share) => *share += socket["accepted"].as_u64().unwrap_or(0),
            None => return Vec::new(),
        }
    }
    shares
}

/// Of a status.
pub(crate) fn listeners(status: &Value) -> impl Iterator<Item = &Value> {
    status["listeners"].as_array().into_iter().flatten()
}
