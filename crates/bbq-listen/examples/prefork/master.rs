//! The process that has the sockets: starts a child for each seat, replaces those that end, and ends them all.
//!
//! It serves nothing. A thread per child waits for it.
//!
//! Invariant: a child is signalled only while it is not yet waited for, so that never another process is.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use anyhow::Context;
use bbq_listen::{Group, Seat};
use rustix::process::{Pid, Signal, kill_process};

use crate::common;

/// A child that ends before it serves has a reason that will not go away: after so many in a row it is given up.
const FALSE_STARTS_MAX: usize = 3;

/// The children, by the number of their seat.
struct Children {
    stopping: bool,
    running: Vec<Option<Pid>>,
}

struct Master<'a> {
    group: &'a Group,
    allow_block: bool,
    children: Mutex<Children>,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(group: &Group, allow_block: bool) -> anyhow::Result<()> {
    let runtime = common::runtime()?;
    let mut signals = common::Signals::new(&runtime)?;
    let children = Children { stopping: false, running: vec![None; group.workers()] };
    let master = Master { group, allow_block, children: Mutex::new(children) };
    let (ready, all_ready) = mpsc::sync_channel(group.workers());
    thread::scope(|threads| {
        let keepers: Vec<_> = group
            .seats()
            .map(|seat| {
                let (master, ready) = (&master, ready.clone());
                threads.spawn(move || master.keep(&seat, &ready))
            })
            .collect();
        // Each is ready once, or its keeper has ended.
        drop(ready);
        if all_ready.iter().take(group.workers()).count() == group.workers() {
            common::announce(group)?;
            runtime.block_on(signals.received());
        }
        master.stop();
        keepers.into_iter().try_for_each(|keeper| {
            keeper.join().map_err(|_| anyhow::anyhow!("the keeper of a child panicked"))?
        })
    })
}

impl Master<'_> {
    /// Keeps a child on one seat, and says once that it is ready.
    fn keep(&self, seat: &Seat, ready: &mpsc::SyncSender<()>) -> anyhow::Result<()> {
        let (mut false_starts, mut ready) = (0, Some(ready));
        while let Some((mut child, mut said)) = self.start(seat)? {
            let number = seat.worker();
            let mut line = String::new();
            said.read_line(&mut line)?;
            if line.starts_with("listening on ") {
                false_starts = 0;
                if let Some(ready) = ready.take() {
                    let _ = ready.send(());
                }
            } else {
                false_starts += 1;
            }
            let rest = said.lines().collect::<Result<Vec<_>, _>>()?;
            let stopping = {
                let mut children = self.children();
                children.running[number] = None;
                children.stopping
            };
            let pid = child.id();
            let status = child.wait()?;
            for report in rest.iter().filter_map(|line| line.split_once(": ")) {
                writeln!(std::io::stdout(), "worker {number}: process {pid}, {}", report.1)?;
            }
            if !stopping {
                eprintln!("prefork: process {pid} of worker {number} ended ({status}); it is replaced");
            }
            anyhow::ensure!(false_starts < FALSE_STARTS_MAX, "worker {number} does not come up: {status}");
        }
        Ok(())
    }

    /// Starts a child, unless all are to end.
    fn start(&self, seat: &Seat) -> anyhow::Result<Option<(Child, BufReader<ChildStdout>)>> {
        // Held until the child is known, so that it cannot be missed when all are ended.
        let mut children = self.children();
        if children.stopping {
            return Ok(None);
        }
        let sockets = self.group.sockets();
        let socket = sockets[seat.worker() % sockets.len()].as_fd().try_clone_to_owned()?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["--listen", &self.group.local_address().to_string(), "--workers", "1"])
            .args(["--distribution", &self.group.distribution().to_string()])
            .args(["--child-of", &std::process::id().to_string()])
            .args(self.allow_block.then_some("--allow-block"))
            .stdin(Stdio::from(socket))
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a child")?;
        children.running[seat.worker()] = Some(Pid::from_child(&child));
        let said = child.stdout.take().context("a child without standard output")?;
        Ok(Some((child, BufReader::new(said))))
    }

    fn stop(&self) {
        let mut children = self.children();
        children.stopping = true;
        for pid in children.running.iter().flatten() {
            let _ = kill_process(*pid, Signal::TERM);
        }
    }

    fn children(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
