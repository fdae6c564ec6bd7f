//! `bbq send` as a process, which reads from its standard input. At times the process is killed, or stopped for a while.

use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::process::Signal;

use super::client::{Client, Field, PATIENCE, owned, pause};
use crate::book::Promise;
use crate::message::Message;
use crate::random::Random;
use crate::watch;

pub(super) struct Program {
    servers: Vec<String>,
    spool: Option<PathBuf>,
    random: Random,
    process: Option<Process>,
}

struct Process {
    child: Child,
    run: u32,
}

impl Program {
    pub(super) fn new(servers: &[&str], spool: Option<PathBuf>, random: Random) -> Program {
        Program { servers: owned(servers), spool, random, process: None }
    }

    fn begin(&mut self, field: &Field) -> Result<(), String> {
        let promise =
            Promise { ordered: field.keeps_order_over(&self.servers), no_holes: true, durable: true };
        let run = field.book.begin(self.name(), promise);
        let mut command = Command::new(&field.bbq);
        command.args(["send", "--quiet"]);
        command.args(self.servers.iter().flat_map(|server| ["--to", server]));
        if let Some(spool) = &self.spool {
            command.arg("--spool").arg(spool);
        }
        let log = std::fs::File::options().create(true).append(true).open(field.directory.join("send.log"));
        let log = log.map_err(|error| format!("send.log: {error}"))?;
        // The process gets its own group: `watch::collect_ended` waits for any process in this program's group.
        command.process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn();
        let child = child.map_err(|error| format!("{}: cannot start: {error}", self.name()))?;
        self.process = Some(Process { child, run });
        Ok(())
    }

    /// Writes lines to the process.
    fn burst(&mut self, field: &Field) {
        let Some(process) = &mut self.process else { return };
        let messages = self.random.below(field.burst_max);
        let first = field.book.send(process.run, messages);
        let mut lines = Vec::new();
        for number in first..first + messages {
            Message { run: process.run, number }.write(&mut lines);
            lines.push(b'\n');
        }
        if let Some(stdin) = &mut process.child.stdin {
            // If the process was killed, it does not read all lines, and those are not sent.
            let _judged_at_its_end = stdin.write_all(&lines);
        }
    }

    fn kill(&mut self, field: &Field) {
        if let Some(mut process) = self.process.take() {
            field.client_kills.fetch_add(1, Ordering::Relaxed);
            let _ended = process.child.kill();
            let _collected = process.child.wait();
        }
    }

    /// Closes the input of the process. The process must then end, with everything acknowledged.
    fn finish(&mut self, field: &Field) -> Result<(), String> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        drop(process.child.stdin.take());
        let begin = Instant::now();
        loop {
            match process.child.try_wait() {
                Ok(Some(status)) if status.success() => break,
                Ok(Some(status)) => {
                    return Err(format!("{}: ended with {status}; see send.log", self.name()));
                }
                Ok(None) if begin.elapsed() > PATIENCE => {
                    let _ended = process.child.kill();
                    return Err(format!("{}, run {:08x}: does not end", self.name(), process.run));
                }
                Ok(None) => pause(&mut self.random, 20),
                Err(error) => return Err(format!("{}: {error}", self.name())),
            }
        }
        let sent = field.book.send(process.run, 0);
        field.book.acknowledge(process.run, sent, field.book.epoch());
        Ok(())
    }
}

impl Client for Program {
    fn name(&self) -> String {
        let spool = if self.spool.is_some() { " --spool" } else { "" };
        format!("bbq send{spool} --to {}", self.servers.join(" --to "))
    }

    fn work(&mut self, field: &Field) -> Result<(), String> {
        if let Some(spool) = &self.spool {
            field.renews(spool, &mut self.random)?;
        }
        while !field.is_stopping() {
            if self.process.is_none() {
                self.begin(field)?;
            }
            self.burst(field);
            if self.random.percent(2) {
                self.kill(field);
            } else if self.random.percent(2)
                && let Some(process) = &self.process
            {
                watch::signal(process.child.id(), Signal::STOP);
                pause(&mut self.random, 500);
                watch::signal(process.child.id(), Signal::CONT);
            }
            pause(&mut self.random, 40);
        }
        // Start the process once more, to send the messages that a killed process left in its spool.
        if self.process.is_none() {
            self.begin(field)?;
        }
        self.finish(field)
    }
}
