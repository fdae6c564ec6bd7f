//! What figures depend on and a reader cannot see: the machine, its disk, and how quiet the machine was.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use serde::Serialize;

use crate::cpu;
use crate::directory;
use crate::pause;
use crate::spread::Spread;

/// How many appends are synced to measure the disk: 40 ms on a good one.
const SYNCS: usize = 200;
/// On a slow one fewer will do.
const SYNCS_WITHIN: Duration = Duration::from_secs(2);
const SYNC_BYTES: usize = 4096;
/// How long the machine is watched before anything runs.
const WATCHED: Duration = Duration::from_millis(200);

/// Asked before the first round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) processors: usize,
    pub(crate) processor: String,
    pub(crate) memory_mib: u64,
    pub(crate) filesystem: String,
    /// An append of 4 KiB and fdatasync, in microseconds.
    pub(crate) fdatasync_us: Option<Spread>,
    /// Share of the processors that other programs used before anything ran, in percent.
    pub(crate) others_before_percent: f64,
    pub(crate) version: &'static str,
    /// Of the repository, where this runs in one.
    pub(crate) commit: Option<String>,
    pub(crate) unix_seconds: u64,
}

impl Machine {
    pub(crate) fn describe(directory: &Path) -> anyhow::Result<Machine> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Machine {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            processors,
            processor: processor(),
            memory_mib: memory_mib(),
            filesystem: filesystem(directory),
            fdatasync_us: fdatasync_us(directory)?,
            others_before_percent: others_percent(processors)?,
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            unix_seconds: now.as_secs(),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { kernel, processors, processor, memory_mib, filesystem, version, .. } = self;
        write!(
            f,
            "bbq {version}, Linux {kernel}, {processors} processors ({processor}), {memory_mib} MiB, {filesystem}, "
        )?;
        match &self.fdatasync_us {
            Some(sync) => write!(
                f,
                "4 KiB append with fdatasync {:.0} us ({:.0}-{:.0})",
                sync.median, sync.least, sync.most
            )?,
            None => write!(f, "fdatasync not measured")?,
        }
        write!(f, "; others had {:.0} % of the processors before the run", self.others_before_percent)
    }
}

fn commit() -> Option<String> {
    let git =
        Command::new("git").args(["describe", "--always", "--dirty", "--exclude", "*"]).output().ok()?;
    let commit = String::from_utf8(git.stdout).ok()?.trim().to_owned();
    (git.status.success() && !commit.is_empty()).then_some(commit)
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

fn memory_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// The type of the file system that holds `directory`: of the mount with the longest path above it.
fn filesystem(directory: &Path) -> String {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        directory.starts_with(path).then_some((path.len(), kind))
    });
    // Of two on one path the later one is on top.
    above.max_by_key(|(length, _)| *length).map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

/// Whether what is written there never reaches a disk.
pub(crate) fn is_in_memory(directory: &Path) -> bool {
    ["tmpfs", "ramfs"].contains(&filesystem(directory).as_str())
}

fn fdatasync_us(parent: &Path) -> anyhow::Result<Option<Spread>> {
    let directory = directory::make(parent)?;
    let mut file = File::create(directory.path().join("probe")).context("cannot write in --data")?;
    let deadline = Instant::now() + SYNCS_WITHIN;
    let mut took = Vec::with_capacity(SYNCS);
    while took.len() < SYNCS && Instant::now() < deadline {
        let began = Instant::now();
        file.write_all(&[0; SYNC_BYTES]).context("cannot write in --data")?;
        file.sync_data().context("fdatasync in --data")?;
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Spread::of(took))
}

fn others_percent(processors: usize) -> anyhow::Result<f64> {
    let (before, began) = (cpu::of_machine()?, Instant::now());
    pause::until(began + WATCHED);
    let busy = cpu::of_machine()?.saturating_sub(before).as_secs_f64();
    // Ticks are coarse beside so short a time.
    Ok((busy * 100.0 / (began.elapsed().as_secs_f64() * processors as f64)).min(100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let machine = Machine::describe(&std::env::temp_dir()).unwrap();
        assert!(machine.processors > 0 && machine.memory_mib > 0);
        let text = machine.to_string();
        assert!(text.contains("Linux") && text.contains(&machine.filesystem), "{text}");
        assert_ne!(filesystem(Path::new("/proc")), filesystem(Path::new("/")));
    }
}
