//! A process with bbq-client's sender and a spool (`crate::sender`). At times it is killed, or stopped for a while.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::process::Signal;

use super::client::{Client, Field, PATIENCE, owned, pause};
use crate::book::Promise;
use crate::random::Random;
use crate::watch;

/// More than a process sends in a run: how many it has sent is known when it ends in order.
const MESSAGES_MAX: u64 = 1 << 40;

pub(super) struct Process {
    servers: Vec<String>,
    spool: PathBuf,
    random: Random,
    /// Messages of earlier runs in this spool.
    before: u64,
    messages_per_second: u64,
    child: Option<Child>,
}

impl Process {
    pub(super) fn new(servers: &[&str], spool: PathBuf, random: Random) -> Process {
        Process { servers: owned(servers), spool, random, before: 0, messages_per_second: 0, child: None }
    }

    fn begin(&mut self, run: u32) -> Result<(), String> {
        // /proc/self/exe is this program, also if its file is built anew meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg("sender").args(self.servers.iter().flat_map(|server| ["--to", server]));
        command.arg("--spool").arg(&self.spool).args(["--run", &run.to_string()]);
        command.args(["--before", &self.before.to_string()]);
        command.args(["--messages-per-second", &self.messages_per_second.to_string()]);
        let log = File::options().create(true).append(true).open(self.spool.with_extension("log"));
        let log = log.map_err(|error| format!("the log of {}: {error}", self.spool.display()))?;
        // The process gets its own group: `watch::collect_ended` waits for any process in this program's group.
        command.process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn();
        let child = child.map_err(|error| format!("{}: cannot start: {error}", self.name()))?;
        self.child = Some(child);
        Ok(())
    }

    fn kill(&mut self, field: &Field) {
        if let Some(mut child) = self.child.take() {
            field.client_kills.fetch_add(1, Ordering::Relaxed);
            let _ended = child.kill();
            let _collected = child.wait();
        }
    }

    /// Closes the input of the process. The process must then end, with everything acknowledged. Returns how many messages it has
    /// sent in this run.
    fn finish(&mut self, run: u32) -> Result<u64, String> {
        let name = format!("{}, run {run:08x}", self.name());
        let Some(mut child) = self.child.take() else { return Err(format!("{name}: there is no process")) };
        drop(child.stdin.take());
        let begin = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => break,
                Ok(Some(status)) => return Err(format!("{name}: ended with {status}; see its log")),
                Ok(None) if begin.elapsed() > PATIENCE => {
                    let _ended = child.kill();
                    return Err(format!("{name}: does not end"));
                }
                Ok(None) => pause(&mut self.random, 20),
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
        let mut text = String::new();
        let read = child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut text));
        text.trim().parse().map_err(|error| format!("{name}: it says {text:?} ({read:?}): {error}"))
    }
}

impl Client for Process {
    fn name(&self) -> String {
        format!("process with a sender, spool, {}", self.servers.join(", "))
    }

    fn work(&mut self, field: &Field) -> Result<(), String> {
        if field.renews(&self.spool, &mut self.random)? {
            self.before = 0;
        }
        self.messages_per_second = 1 + self.random.below(2 * field.messages_per_second());
        let ordered = field.keeps_order_over(&self.servers);
        let promise = Promise { ordered, no_holes: true, durable: true };
        let run = field.book.begin(self.name(), promise);
        field.book.send(run, MESSAGES_MAX);
        self.begin(run)?;
        while !field.is_stopping() {
            pause(&mut self.random, 2000);
            if self.random.percent(50) {
                self.kill(field);
                pause(&mut self.random, 500);
                self.begin(run)?;
            } else if let Some(child) = &self.child {
                watch::signal(child.id(), Signal::STOP);
                pause(&mut self.random, 500);
                watch::signal(child.id(), Signal::CONT);
            }
        }
        let sent = self.finish(run)?;
        field.book.unsend(run, MESSAGES_MAX - sent);
        field.book.acknowledge(run, sent, field.book.epoch());
        self.before += sent;
        Ok(())
    }
}
