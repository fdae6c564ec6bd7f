//! A server as a child process. It ends with its sample, however the sample ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde::de::DeserializeOwned;

use crate::cpu;
use crate::interrupt;
use crate::pause::INTERRUPTED_WITHIN;

/// A server drains before it ends. One that takes longer than this hangs.
pub(crate) const END_WITHIN: Duration = Duration::from_secs(60);
/// How many lines of a failed server's output are shown.
const COMPLAINT_LINES: usize = 3;

/// Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    said: PathBuf,
}

impl Process {
    /// Starts `command`; its standard error goes into `directory`, and so does its output unless it is piped.
    pub(crate) fn start(
        name: &str,
        command: &mut Command,
        directory: &Path,
        stdout: Output,
    ) -> anyhow::Result<Process> {
        let said = directory.join(format!("{name}.stderr"));
        let errors = File::create(&said).with_context(|| format!("cannot write {}", said.display()))?;
        let stdout = match stdout {
            Output::Piped => Stdio::piped(),
            Output::Kept => Stdio::from(errors.try_clone().context("cannot write the server's log")?),
        };
        let child = command
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(errors)
            .env("NO_COLOR", "1")
            .spawn()
            .with_context(|| format!("cannot start {name} ({})", command.get_program().display()))?;
        Ok(Process { name: name.to_owned(), child, said })
    }

    /// Runs a program to its successful end, for so long at most.
    pub(crate) fn run(
        name: &str,
        command: &mut Command,
        directory: &Path,
        limit: Duration,
    ) -> anyhow::Result<Ended> {
        let began = Instant::now();
        let mut process = Process::start(name, command, directory, Output::Kept)?;
        let cpu = process.wait_within(limit)?;
        Ok(Ended { said: process.said(), cpu, took: began.elapsed() })
    }

    /// Runs a program that measures itself, and returns the last line that it prints, which is JSON.
    pub(crate) fn measured<T: DeserializeOwned>(
        name: &str,
        command: &mut Command,
        directory: &Path,
        limit: Duration,
    ) -> anyhow::Result<T> {
        let said = Process::run(name, command, directory, limit)?.said;
        let line = said.lines().last().unwrap_or_default();
        serde_json::from_str(line).with_context(|| format!("{name} ended with {line:?}"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Fails, with its output, if the process has ended.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().with_context(|| format!("cannot wait for {}", self.name))? {
            None => Ok(()),
            Some(status) => anyhow::bail!("{} ended too early, {status}: {}", self.name, self.complaint()),
        }
    }

    /// Sends SIGTERM, and waits for its successful end; returns its processor time from start to end.
    pub(crate) fn terminate(&mut self) -> anyhow::Result<Duration> {
        self.signal(Signal::TERM)?;
        self.wait()
    }

    /// Waits until it ends by itself, with success.
    pub(crate) fn wait(&mut self) -> anyhow::Result<Duration> {
        self.wait_within(END_WITHIN)
    }

    /// The same, with a time limit.
    fn wait_within(&mut self, limit: Duration) -> anyhow::Result<Duration> {
        let (status, cpu) = self.ended_within(limit)?;
        anyhow::ensure!(status.success(), "{} did not end well, {status}: {}", self.name, self.complaint());
        Ok(cpu)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    fn ended_within(&mut self, limit: Duration) -> anyhow::Result<(ExitStatus, Duration)> {
        let pid = Pid::from_child(&self.child);
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).context("pidfd_open")?;
        let deadline = Instant::now() + limit;
        let look = Timespec::try_from(INTERRUPTED_WITHIN).context("a time")?;
        loop {
            interrupt::check()?;
            match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&look)) {
                Ok(0) if Instant::now() >= deadline => {
                    anyhow::bail!("{} did not end within {} s", self.name, limit.as_secs())
                }
                Ok(0) => {}
                Ok(_) => {
                    // The kernel keeps the figures of a process that has ended until somebody waits for it.
                    let cpu = cpu::of_process(self.child.id()).map_or(Duration::ZERO, |time| time.total);
                    let status = self.child.wait();
                    return Ok((status.with_context(|| format!("cannot wait for {}", self.name))?, cpu));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("poll"),
            }
        }
    }

    /// What it printed: on standard error, and on standard output unless that is piped.
    pub(crate) fn said(&self) -> String {
        std::fs::read(&self.said)
            .map_or_else(|_| String::new(), |said| String::from_utf8_lossy(&said).into_owned())
    }

    /// The last lines of that.
    fn complaint(&self) -> String {
        let text = self.said();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        match lines.len() {
            0 => "it said nothing".to_owned(),
            count => lines[count.saturating_sub(COMPLAINT_LINES)..].join(" / "),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return; // it has ended, and its number may be another's
        }
        // Kills its descendants, too. A process that has ended meanwhile needs no signal.
        for pid in cpu::family(self.child.id()).into_iter().filter_map(cpu::pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// A process that stands still until this is dropped.
#[derive(Debug)]
pub(crate) struct Stopped(Pid);

impl Stopped {
    pub(crate) fn new(process: u32) -> anyhow::Result<Stopped> {
        let process = cpu::pid(process).context("no process has this number")?;
        kill_process(process, Signal::STOP).context("SIGSTOP")?;
        Ok(Stopped(process))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have ended with its server.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// What a program that has ended printed and cost.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) said: String,
    pub(crate) cpu: Duration,
    pub(crate) took: Duration,
}

/// Where a server's standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// To a pipe that this program reads.
    Piped,
    /// To the same file as its standard error.
    Kept,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_gone_with_all_that_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]);
        let mut process = Process::start("sh", &mut command, directory.path(), Output::Piped).unwrap();
        let mut line = String::new();
        let mut said = std::io::BufReader::new(process.child().stdout.take().unwrap());
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        let sleeping = PathBuf::from(format!("/proc/{}/stat", line.trim()));
        assert!(sleeping.exists());
        drop(process);
        // Killed is enough: who adopts it may take a while to collect it.
        let is_gone = || std::fs::read_to_string(&sleeping).map_or(true, |stat| stat.contains(") Z "));
        let gone = crate::pause::wait_for(Duration::from_secs(20), || Ok(is_gone().then_some(()))).unwrap();
        assert!(gone.is_some());
    }

    #[test]
    fn who_ends_too_early_is_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such thing >&2; exit 3"]);
        let mut process = Process::start("sh", &mut command, directory.path(), Output::Kept).unwrap();
        let error = process.wait().unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such thing"), "{error}");
    }
}
