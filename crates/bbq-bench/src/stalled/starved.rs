//! A worker whose processor a busy thread of a higher priority has.
//!
//! Everything else of the server, and the load, is kept off that processor: else the kernel would decide who is starved.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Victim;
use super::victim::threads;
use crate::cpu;
use crate::pause::wait_for;
use crate::peers;
use crate::process::{Output, Process};
use crate::settings::Settings;

/// The kernel lets real-time threads run for 95 % of a second (sched_rt_runtime_us), and this one ends before.
pub(crate) const STARVED: Duration = Duration::from_millis(900);
/// By then it has run, if it runs at all.
const BUSY_WITHIN: Duration = Duration::from_secs(20);
/// Far more than the programs need that become the busy thread: it is busy by then, and the worker did not run since.
const STARTED: Duration = Duration::from_millis(30);
const PROGRAMS: [&str; 3] = ["prlimit", "chrt", "taskset"];

/// Starved from `start` on, for 0.9 s.
#[derive(Debug)]
pub(crate) struct Starved {
    /// Ends when it is dropped, or by its limit of real time.
    _busy: Process,
    _load: KeptOff,
}

/// This thread, and those that it starts, kept off a processor.
#[derive(Debug)]
struct KeptOff {
    /// Where it may run once this is dropped.
    before: CpuSet,
}

impl Starved {
    /// Whether this system lets us. If not, `left_out` says why.
    pub(crate) fn can(left_out: &mut Vec<String>) -> bool {
        let why_not = if let Some(missing) = PROGRAMS.iter().find(|program| peers::find(program).is_none()) {
            format!("{missing} is not installed (util-linux)")
        } else if sched_getaffinity(None).map_or(1, |processors| processors.count()) < 2 {
            "there is one processor: nobody would be left to serve".to_owned()
        } else if !Command::new("chrt")
            .args(["--fifo", "1", "true"])
            .output()
            .is_ok_and(|output| output.status.success())
        {
            "this user may not have threads of real-time priority (chrt --fifo)".to_owned()
        } else {
            return true;
        };
        left_out.push(format!("starved: {why_not}"));
        false
    }

    /// Returns when the busy thread runs.
    pub(crate) fn start(settings: &Settings, victim: &Victim) -> anyhow::Result<Starved> {
        let before = sched_getaffinity(None).context("sched_getaffinity")?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|processor| before.is_set(*processor));
        let processor = last.context("no processor")?;
        let (mut its, mut others) = (CpuSet::new(), before);
        its.set(processor);
        others.unset(processor);
        sched_setaffinity(None, &others).context("sched_setaffinity")?;
        let load = KeptOff { before };
        for process in cpu::family(victim.server) {
            for thread in threads(process) {
                let set = if thread == victim.thread { &its } else { &others };
                match sched_setaffinity(cpu::pid(thread), set) {
                    Ok(()) | Err(Errno::SRCH) => {} // it has ended
                    Err(error) => return Err(error).context("sched_setaffinity of the server"),
                }
            }
        }
        let mut command = Command::new("prlimit");
        command.arg(format!("--rttime={}", STARVED.as_micros())).args(["chrt", "--fifo", "50", "taskset"]);
        command.args(["--cpu-list", &processor.to_string(), "sh", "-c", "while :; do :; done"]);
        let mut busy = Process::start("busy", &mut command, &settings.directory, Output::Kept)?;
        let pid = busy.pid();
        let runs = wait_for(BUSY_WITHIN, || {
            busy.check_alive()?;
            Ok((cpu::of_process(pid)?.total >= STARTED).then_some(()))
        })?;
        runs.context("the busy thread does not run")?;
        Ok(Starved { _busy: busy, _load: load })
    }
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}
