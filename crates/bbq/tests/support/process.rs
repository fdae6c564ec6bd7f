//! What the kernel shows of a process, and limits of this process.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Resident memory in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    memory_kib(pid, "VmRSS:")
}

/// The maximum of resident memory so far, in KiB.
pub fn peak_kib(pid: u32) -> u64 {
    memory_kib(pid, "VmHWM:")
}

fn memory_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Processor time used so far by all threads, in clock ticks (1/100 s).
pub fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    // The name in parentheses may hold anything; behind it utime and stime are fields 14 and 15 of proc(5).
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

/// Open descriptors.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count()
}

/// Packets of the whole machine, loopback included, that were dropped before any socket saw them, because too many waited
/// for a processor: the second column of /proc/net/softnet_stat, a row per processor.
pub fn packets_dropped() -> u64 {
    let rows = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = rows.lines().filter_map(|row| row.split_whitespace().nth(1));
    dropped.map(|hex| u64::from_str_radix(hex, 16).expect("hexadecimal")).sum()
}

/// Raises the limit of descriptors of this process and its children to the system's maximum; fails if that is too low.
pub fn need_descriptors(needed: u64) {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    assert!(hard >= needed, "this test needs {needed} descriptors and the hard limit is {hard} (ulimit -Hn)");
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .expect("the soft limit may be raised to the hard one");
}
