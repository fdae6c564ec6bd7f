//! The processes of the server under test. During an upgrade there are two processes; afterwards the new process is left.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Signal, WaitOptions, waitpid};
use serde_json::Value;

use crate::admin;
use crate::clients::PATIENCE;
use crate::home::Home;
use crate::watch::{self, Descriptors};

/// The interval between two checks of a condition.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct Server {
    program: PathBuf,
    home: Home,
}

impl Server {
    pub(crate) fn new(program: PathBuf, home: Home) -> Server {
        Server { program, home }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// The running processes. Usually there is one.
    pub(crate) fn pids(&self) -> Vec<u32> {
        watch::processes_with(&self.home.config.display().to_string())
    }

    /// Replaces the configuration by a rename: a server that starts at this moment must find the old text or the new text.
    pub(crate) fn configure(&self, text: &str) -> Result<()> {
        let new = self.home.config.with_extension("new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &self.home.config))
            .context("cannot write the configuration")
    }

    /// Starts the server, but does not wait until it is ready.
    pub(crate) fn spawn(&self) -> Result<u32> {
        let log = File::options().create(true).append(true).open(&self.home.log)?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--config").arg(&self.home.config);
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?.id())
    }

    /// Starts the server, and waits until it is ready.
    pub(crate) fn start(&self) -> Result<()> {
        let pid = self.spawn()?;
        self.wait_ready(Some(pid))
    }

    /// Waits until the server is ready. Fails if the server has ended: it has no processes, and `pid`, if given, does not run.
    pub(crate) fn wait_ready(&self, pid: Option<u32>) -> Result<()> {
        let is_ready = wait(PATIENCE, || {
            let status = admin::status(self.home.admin);
            if matches!(&status, Ok(status) if status["ready"] == true) {
                return Ok(true);
            }
            if self.pids().is_empty() && pid.is_none_or(|pid| !watch::is_running(pid)) {
                return Ok(false);
            }
            status?;
            bail!("the server says that it is not ready")
        })?;
        ensure!(is_ready, "the server ended by itself instead of serving");
        Ok(())
    }

    /// Waits until there is only one process, and this process is ready.
    pub(crate) fn wait_one(&self) -> Result<()> {
        wait(PATIENCE, || {
            let pids = self.pids();
            ensure!(pids.len() <= 1, "the server has several processes: {pids:?}");
            Ok(())
        })?;
        self.wait_ready(None)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.pids().into_iter().for_each(|pid| watch::signal(pid, signal));
    }

    /// Sends a signal to the processes that already have a handler for it. The signal would kill a program that has just started.
    pub(crate) fn ask(&self, signal: Signal) {
        let catching = self.pids().into_iter().filter(|pid| watch::catches(*pid, signal));
        catching.for_each(|pid| watch::signal(pid, signal));
    }

    /// Sends SIGKILL to all processes of the server. Returns when they are gone.
    pub(crate) fn kill(&self) {
        loop {
            let pids = self.pids();
            if pids.is_empty() {
                return;
            }
            pids.iter().for_each(|pid| watch::signal(*pid, Signal::KILL));
            pids.into_iter().for_each(Server::wait_gone);
        }
    }

    /// Sends SIGKILL to one process of the server. Returns when this process is gone.
    pub(crate) fn kill_one(&self, pid: u32) {
        watch::signal(pid, Signal::KILL);
        Server::wait_gone(pid);
    }

    fn wait_gone(pid: u32) {
        while watch::is_running(pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends SIGTERM. The server must end with exit code 0.
    pub(crate) fn stop(&self) -> Result<()> {
        let pids = self.pids();
        let mut codes = Vec::new();
        self.signal(Signal::TERM);
        let begin = Instant::now();
        for pid in pids {
            let Some(number) = watch::to_pid(pid) else { continue };
            loop {
                match waitpid(Some(number), WaitOptions::NOHANG) {
                    Ok(Some((_, status))) => {
                        codes.push(status.exit_status());
                        break;
                    }
                    // The process is not our child, or was collected already.
                    Err(_) if !watch::is_running(pid) => break,
                    Ok(None) | Err(_) if begin.elapsed() < PATIENCE => std::thread::sleep(LOOK_INTERVAL),
                    Ok(None) | Err(_) => {
                        bail!("SIGTERM did not end the server (pid {pid}) within {} s", PATIENCE.as_secs())
                    }
                }
            }
        }
        if codes.iter().any(|code| *code != Some(0)) {
            bail!("SIGTERM ended the server with exit codes {codes:?}");
        }
        Ok(())
    }

    /// Waits until everything is delivered and the ledger balances.
    pub(crate) fn wait_quiet(&self) -> Result<Value> {
        wait(PATIENCE, || {
            let status = admin::status(self.home.admin)?;
            admin::check_quiet(&status).with_context(|| status.to_string())?;
            Ok(status)
        })
    }

    /// The server's open descriptors, without those of connections.
    pub(crate) fn own_descriptors(&self) -> Result<Descriptors> {
        let mut before = self.connections()?;
        loop {
            let (pid, connections) = before;
            let all = watch::descriptors(pid, &self.home.data.join("spool"));
            let behind = self.connections()?;
            if before == behind {
                return Ok(Descriptors { others: all.others.saturating_sub(connections), ..all });
            }
            before = behind;
        }
    }

    /// The process id of the server, and the number of its connections.
    fn connections(&self) -> Result<(u32, usize)> {
        let status = admin::status(self.home.admin)?;
        let workers = status["workers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let connections: u64 = workers.iter().map(|worker| admin::sum(&worker["connections"])).sum();
        let pid = status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).context("no pid")?;
        Ok((pid, usize::try_from(connections)?))
    }

    /// Waits until `/health` is ok.
    pub(crate) fn wait_healthy(&self, patience: Duration) -> Result<()> {
        wait(patience, || match admin::ask(self.home.admin, "/health")? {
            (200, _) => Ok(()),
            (code, text) => bail!("/health is {code}: {text}"),
        })
    }

    /// The last lines of the server's log.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        let log = fs::read(&self.home.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Calls `check` until it succeeds. Returns the last error of `check` if that takes longer than `patience`.
pub(crate) fn wait<T>(patience: Duration, mut check: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    loop {
        match check() {
            Err(error) if begin.elapsed() > patience => {
                return Err(error.context(format!("this did not change within {} s", patience.as_secs())));
            }
            Err(_) => std::thread::sleep(LOOK_INTERVAL),
            done => return done,
        }
    }
}
