//! Another program that reads the same files and writes one file, under the same kills.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::tool::Tool;
use crate::clients::PATIENCE;
use crate::output::Output;
use crate::server::wait;
use crate::watch;

/// What it has not written within this time it does not write any more: it reads without being asked.
const SETTLED: Duration = Duration::from_secs(2);

/// Calls a function with each text in a line of the output.
pub(super) type TextsOf = fn(&[u8], &mut dyn FnMut(&[u8]));

pub(super) struct Other {
    name: String,
    command: Box<dyn Fn() -> Command>,
    log: PathBuf,
    /// The directory of the files that it reads.
    logs: PathBuf,
    output: PathBuf,
    child: Option<Child>,
    /// How long its output is, and since when.
    seen: (u64, Instant),
    texts_of: TextsOf,
}

impl Other {
    pub(super) fn new(
        name: &str,
        directory: &Path,
        logs: &Path,
        command: impl Fn() -> Command + 'static,
        texts_of: TextsOf,
    ) -> Other {
        Other {
            name: name.to_owned(),
            command: Box::new(command),
            log: directory.join("own.log"),
            logs: logs.to_owned(),
            output: directory.join("out/messages.log"),
            child: None,
            seen: (0, Instant::now()),
            texts_of,
        }
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        watch::signal(child.id(), signal);
        let ended = wait(PATIENCE, || child.try_wait()?.context("it has not ended"));
        if ended.is_err() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

impl Tool for Other {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self) -> Result<()> {
        if self.child.is_none() {
            let log = File::options().create(true).append(true).open(&self.log)?;
            let mut command = (self.command)();
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            self.child = Some(command.spawn().with_context(|| format!("cannot start {command:?}"))?);
        }
        Ok(())
    }

    fn kill_reader(&mut self) -> Result<()> {
        self.end(Signal::KILL)
    }

    fn kill_server(&mut self) -> Result<()> {
        Ok(())
    }

    fn starts_server(&mut self) -> Result<()> {
        Ok(())
    }

    fn pids(&self) -> Vec<u32> {
        self.child.iter().map(Child::id).collect()
    }

    fn is_quiet(&mut self, _lines: u64) -> Result<bool> {
        let length = fs::metadata(&self.output).map_or(0, |metadata| metadata.len());
        let is_at_ends = self.held(&self.logs).iter().all(|held| held.position >= held.length);
        if length != self.seen.0 || !is_at_ends || self.child.is_none() {
            self.seen = (length, Instant::now());
        }
        Ok(self.seen.1.elapsed() > SETTLED)
    }

    fn has_read_deleted(&self, _lines: u64, below: &Path) -> bool {
        self.held(below).iter().all(|held| !held.is_deleted || held.position >= held.length)
    }

    fn state(&self) -> String {
        format!("its output has {} bytes", self.seen.0)
    }

    fn stop(&mut self) -> Result<()> {
        self.end(Signal::TERM)
    }

    fn read(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<()> {
        Output::new(self.output.clone()).read(|line| (self.texts_of)(line, see))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ended = child.kill();
            let _collected = child.wait();
        }
    }
}
