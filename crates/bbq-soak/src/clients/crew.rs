//! All clients of a run: they work at the same time, each on a thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rustix::process::Signal;

use super::client::{Client, Field, PATIENCE};
use crate::watch;

/// A working client; its thread returns it.
type Working = JoinHandle<(Box<dyn Client>, Result<(), String>)>;

pub(crate) struct Crew {
    idle: Vec<Box<dyn Client>>,
    working: Vec<Working>,
}

impl Crew {
    pub(crate) fn new(clients: Vec<Box<dyn Client>>) -> Crew {
        Crew { idle: clients, working: Vec::new() }
    }

    pub(crate) fn start(&mut self, field: &Arc<Field>) -> Result<()> {
        field.stopping.store(false, Ordering::Release);
        for mut client in self.idle.drain(..) {
            let field = Arc::clone(field);
            self.working.push(std::thread::Builder::new().spawn(move || {
                let worked = client.work(&field);
                (client, worked)
            })?);
        }
        Ok(())
    }

    /// Stops the clients, and waits for them. Each client must end.
    pub(crate) fn stop(&mut self, field: &Field) -> Result<()> {
        field.stopping.store(true, Ordering::Release);
        let begin = Instant::now();
        let mut problems = Vec::new();
        for thread in self.working.drain(..) {
            // A client waits for several things, each with a time-out.
            while !thread.is_finished() && begin.elapsed() < 3 * PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
            if !thread.is_finished() {
                bail!("a client hangs; {}", problems.join("; "));
            }
            match thread.join() {
                Ok((client, worked)) => {
                    problems.extend(worked.err());
                    self.idle.push(client);
                }
                Err(_) => problems.push("a client panicked".to_owned()),
            }
        }
        ensure!(problems.is_empty(), "{}", problems.join("\n"));
        Ok(())
    }
}

/// Ends client processes that still run after a failure. They would send to the next owner of the port.
pub(crate) fn end_senders(servers: &[String]) {
    for server in servers {
        watch::processes_with(server).into_iter().for_each(|pid| watch::signal(pid, Signal::KILL));
    }
}
