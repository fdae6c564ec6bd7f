//! Information about processes from /proc and waitpid.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Pid, Signal, WaitOptions, getpgrp, kill_process, waitpgid, waitpid};

/// Running processes that have `word` among their arguments.
pub(crate) fn processes_with(word: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let path = Path::new("/proc").join(pid.to_string());
        let words = fs::read(path.join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
    .collect()
}

/// Whether a process runs. For a child, waitpid(2) decides: after a kill the first thread may have ended while another thread
/// still has the sockets, and only waitpid(2) tells when all threads have ended.
pub(crate) fn is_running(pid: u32) -> bool {
    let Some(number) = to_pid(pid) else { return false };
    match waitpid(Some(number), WaitOptions::NOHANG) {
        Ok(Some(_)) => false,
        Ok(None) => true,
        // The process is not a child of this process.
        Err(_) => {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
            state.is_some_and(|state| state != 'Z' && state != 'X')
        }
    }
}

/// Collects all children in this program's process group that have ended: servers that an upgrade replaced.
pub(crate) fn collect_ended() {
    while let Ok(Some(_)) = waitpgid(getpgrp(), WaitOptions::NOHANG) {}
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = to_pid(pid) {
        // The process may have ended by itself.
        let _ended = kill_process(pid, signal);
    }
}

/// Whether a process has a handler for a signal; see proc_pid_status(5).
pub(crate) fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    caught.is_some_and(|caught| caught >> (signal.as_raw() - 1) & 1 == 1)
}

pub(crate) fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Open descriptors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Descriptors {
    /// Segments of a spool that are written, or read by a sink.
    pub(crate) segments: usize,
    /// Sockets, event loops, and all others.
    pub(crate) others: usize,
}

/// The open descriptors of a process with this spool.
pub(crate) fn descriptors(pid: u32, spool: &Path) -> Descriptors {
    let mut found = Descriptors::default();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        // The descriptor may have been closed meanwhile.
        let Ok(file) = fs::read_link(entry.path()) else { continue };
        if file.starts_with(spool) {
            found.segments += 1;
        } else {
            found.others += 1;
        }
    }
    found
}

/// Resident memory in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// A file that a process has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) inode: u64,
    pub(crate) length: u64,
    /// Where the next read begins, for a process that does not name its places.
    pub(crate) position: u64,
    pub(crate) is_deleted: bool,
}

/// The files below a directory that a process has open, also those that were deleted.
pub(crate) fn held(pid: u32, below: &Path) -> Vec<Held> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let held = entries.filter_map(|entry| {
        // The descriptor may be closed meanwhile.
        let file = fs::read_link(entry.path()).ok().filter(|file| file.starts_with(below))?;
        let metadata = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file)?;
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", entry.file_name().display())).ok()?;
        let position = info.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()?;
        let is_deleted = metadata.nlink() == 0 || file.to_string_lossy().ends_with(" (deleted)");
        Some(Held { inode: metadata.ino(), length: metadata.len(), position, is_deleted })
    });
    held.collect()
}
