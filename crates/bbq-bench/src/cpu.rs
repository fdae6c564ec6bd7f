//! Processor time: of this thread, of another process with its children, of the whole machine.
//!
//! Linux counts the time of a process in two ways: in clock ticks, with threads that have ended, and in nanoseconds for each
//! living thread (scheduler statistics). Both count the same time, so the higher figure is the better one.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Sub;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// The length of a tick in /proc: a second by `sysconf(_SC_CLK_TCK)`.
fn tick() -> Duration {
    Duration::from_secs(1) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100)
}

/// How often the calling thread has given up its processor by itself.
pub(crate) fn sleeps_of_this_thread() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").context("/proc/thread-self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .context("no voluntary_ctxt_switches in /proc/thread-self/status")
}

/// The processor time of some processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessTime {
    pub(crate) total: Duration,
    /// In whole ticks.
    pub(crate) user: Duration,
    /// In whole ticks.
    pub(crate) system: Duration,
}

impl Sub for ProcessTime {
    type Output = ProcessTime;

    fn sub(self, earlier: ProcessTime) -> ProcessTime {
        ProcessTime {
            total: self.total.saturating_sub(earlier.total),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Of the calling thread.
pub(crate) fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock begins at 0 and fits.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Of a process and the processes it has started and that live.
pub(crate) fn of_process(pid: u32) -> anyhow::Result<ProcessTime> {
    of_family(&family(pid))
}

/// The first must be there; another may have ended since it was listed, and then counts for nothing.
fn of_family(pids: &[u32]) -> anyhow::Result<ProcessTime> {
    let mut sum = ProcessTime::default();
    for (index, pid) in pids.iter().enumerate() {
        let own = match of_one(*pid) {
            Err(_) if index > 0 && !Path::new(&format!("/proc/{pid}")).exists() => continue,
            own => own?,
        };
        sum.total += own.total;
        sum.user += own.user;
        sum.system += own.system;
    }
    Ok(sum)
}

/// The same number, as system calls want it.
pub(crate) fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// A process and all that descend from it, itself first.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        next += 1;
    }
    all
}

fn of_one(pid: u32) -> anyhow::Result<ProcessTime> {
    let path = format!("/proc/{pid}/stat");
    let stat =
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}: has the process ended?"))?;
    let (user, system) = ticks_of(&stat).with_context(|| format!("{path} is not as Linux writes it"))?;
    let threads = nanoseconds_of_threads(pid).unwrap_or_default();
    Ok(ProcessTime { total: threads.max(user + system), user, system })
}

/// utime and stime, fields 14 and 15; the command in front may hold anything, so it is counted from its end.
fn ticks_of(stat: &str) -> Option<(Duration, Duration)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    let mut next = || Some(tick() * fields.next()?.ok()?);
    Some((next()?, next()?))
}

fn nanoseconds_of_threads(pid: u32) -> Option<Duration> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        sum += nanoseconds_of_thread(&thread.ok()?.path())?;
    }
    Some(Duration::from_nanos(sum))
}

fn nanoseconds_of_thread(thread: &Path) -> Option<u64> {
    fs::read_to_string(thread.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
}

/// Microseconds of the threads of a process that live, by their names.
pub(crate) fn by_thread(pid: u32) -> BTreeMap<String, f64> {
    let mut threads = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let name = fs::read_to_string(thread.path().join("comm"));
        if let (Ok(name), Some(nanoseconds)) = (name, nanoseconds_of_thread(&thread.path())) {
            *threads.entry(name.trim_end().to_owned()).or_default() += nanoseconds as f64 / 1000.0;
        }
    }
    threads
}

/// What all processors together have spent on anything, the kernel's own threads and what the hypervisor took away
/// included.
pub(crate) fn of_machine() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    busy_of(&stat).context("/proc/stat is not as Linux writes it")
}

/// user, nice, system, idle, iowait, irq, softirq, steal.
fn busy_of(stat: &str) -> Option<Duration> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks[..] else { return None };
    let busy = user + nice + system + irq + softirq + steal;
    Some(tick().mul_f64(busy as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_blanks_and_brackets_does_not_move_the_fields() {
        let stat = "17 (a) b (c) S 1 1 1 0 -1 4194304 1 2 3 4 250 75 0 0 20 0 1 0 5 6 7";
        let (user, system) = ticks_of(stat).unwrap();
        assert_eq!((user, system), (tick() * 250, tick() * 75));
        assert_eq!(ticks_of("17 (a) S 1"), None);
    }

    #[test]
    fn waiting_is_not_being_busy() {
        assert_eq!(busy_of("cpu  1 2 3 400 500 6 7 8 9 10\ncpu0 1"), Some(tick().mul_f64(27.0)));
        assert_eq!(busy_of("cpu  1 2"), None);
    }

    #[test]
    fn this_process_has_used_some() {
        let before = of_this_thread();
        // The kernel counts a process's time in ticks; a young process has had none.
        loop {
            std::hint::black_box((0..1_000_000_u64).fold(0, |sum, x| sum ^ std::hint::black_box(x)));
            if of_process(std::process::id()).unwrap().total > Duration::ZERO {
                break;
            }
        }
        assert!(of_this_thread() > before);
        assert!(of_machine().unwrap() > Duration::ZERO);
    }

    #[test]
    fn a_child_that_has_ended_since_it_was_listed_counts_for_nothing() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (this, ended) = (std::process::id(), child.id());
        assert!(of_family(&[this, ended]).is_ok());
        assert!(of_family(&[ended]).is_err());
    }
}
