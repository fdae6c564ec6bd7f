//! How much memory the process may use: the limits of its control groups (cgroups(7)), and what the machine has. The smallest applies.
//!
//! ```text
//! version 2   memory.max and memory.high, of the process's group and of each group above it that can be seen
//! version 1   memory.limit_in_bytes, likewise, and hierarchical_memory_limit in memory.stat, which knows groups that cannot be seen
//! ```
//!
//! At memory.high the kernel does not kill, but slows the process down until it stands still: it is a limit as well.

use std::fs;
use std::path::{Path, PathBuf};

/// The most bytes of a file of the kernel that are looked at: a line of mountinfo has some hundred bytes, and there may be thousands.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The files of a group with a limit, by version.
const FILES_OF_V2: [&str; 2] = ["memory.max", "memory.high"];
const FILES_OF_V1: [&str; 1] = ["memory.limit_in_bytes"];

/// How much memory the process may use, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit.
    pub bytes: u64,
    /// A file of a control group, or the machine.
    pub from: String,
}

impl MemoryLimit {
    /// Of this process; `None` if the kernel tells nothing.
    pub(super) fn of_process() -> Option<MemoryLimit> {
        let text = |path: &Path| fs::read_to_string(path).ok().filter(|text| text.len() <= TEXT_BYTES_MAX);
        MemoryLimit::of(&text)
    }

    /// The same, of a process whose files `read` returns.
    fn of(read: &impl Fn(&Path) -> Option<String>) -> Option<MemoryLimit> {
        let machine = read(Path::new("/proc/meminfo")).and_then(|text| of_machine(&text));
        let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
        let of_groups = groups.lines().flat_map(|line| of_line(line, &mounts, read));
        of_groups.chain(machine).min_by_key(|limit| limit.bytes)
    }
}

fn of_machine(meminfo: &str) -> Option<MemoryLimit> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(MemoryLimit { bytes: kib.saturating_mul(1024), from: "the memory of the machine".to_owned() })
}

/// The limits of a line of /proc/self/cgroup: `ID:CONTROLLERS:PATH`; version 2 has no controllers.
fn of_line(line: &str, mounts: &str, read: &impl Fn(&Path) -> Option<String>) -> Vec<MemoryLimit> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { return Vec::new() };
    let is_v2 = controllers.is_empty();
    if !is_v2 && !controllers.split(',').any(|controller| controller == "memory") {
        return Vec::new();
    }
    let Some((root, top)) = mounts.lines().find_map(|mount| mounted(mount, is_v2)) else { return Vec::new() };
    // In a container, the group may be above what is mounted; then only the top can be seen.
    let below = Path::new(group).strip_prefix(&root).unwrap_or(Path::new(""));
    let inside = below.components().all(|part| part != std::path::Component::ParentDir);
    let own = if inside { top.join(below) } else { top.clone() };
    let files: &[&str] = if is_v2 { &FILES_OF_V2 } else { &FILES_OF_V1 };
    let limit = |path: PathBuf, text: &str| {
        let bytes = text.trim().parse().ok()?;
        Some(MemoryLimit { bytes, from: path.display().to_string() })
    };
    let mut found = Vec::new();
    for directory in own.ancestors().take_while(|directory| directory.starts_with(&top)) {
        for file in files {
            let path = directory.join(file);
            // `max` is no number.
            found.extend(read(&path).and_then(|text| limit(path, &text)));
        }
    }
    let path = own.join("memory.stat");
    if !is_v2 && let Some(text) = read(&path) {
        let value = text.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "));
        found.extend(value.and_then(|value| limit(path, value)));
    }
    found
}

/// The root of the groups and the directory where they are mounted, if this line of mountinfo (proc_pid_mountinfo(5)) mounts them:
/// `36 35 98:0 ROOT DIRECTORY OPTIONS FIELDS... - TYPE SOURCE SUPER_OPTIONS`.
fn mounted(line: &str, is_v2: bool) -> Option<(PathBuf, PathBuf)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let is_it = match kind.next()? {
        "cgroup2" => is_v2,
        "cgroup" => !is_v2 && kind.nth(1)?.split(',').any(|option| option == "memory"),
        _ => false,
    };
    let mut fields = mount.split(' ').skip(3);
    let (root, directory) = (fields.next()?, fields.next()?);
    is_it.then(|| (PathBuf::from(root), PathBuf::from(directory)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const V2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "31 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 23 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      33 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn limit(cgroup: &str, mounts: &str, files: &[(&str, &str)]) -> Option<(u64, String)> {
        let mut all = HashMap::from([
            ("/proc/self/cgroup".to_owned(), cgroup.to_owned()),
            ("/proc/self/mountinfo".to_owned(), mounts.to_owned()),
            ("/proc/meminfo".to_owned(), "MemFree: 1 kB\nMemTotal:  1000000 kB\n".to_owned()),
        ]);
        all.extend(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        let read = |path: &Path| all.get(path.to_str().unwrap()).cloned();
        MemoryLimit::of(&read).map(|limit| (limit.bytes, limit.from))
    }

    #[test]
    fn the_smallest_of_all_groups_above_applies() {
        let cgroup = "0::/system.slice/bbq.service\n";
        let own = ("/sys/fs/cgroup/system.slice/bbq.service/memory.max", "268435456\n");
        let above = ("/sys/fs/cgroup/system.slice/memory.max", "134217728\n");
        let (bytes, from) = limit(cgroup, V2, &[own, above]).unwrap();
        assert_eq!((bytes, from.as_str()), (128 << 20, above.0));
        let high = ("/sys/fs/cgroup/system.slice/bbq.service/memory.high", "67108864\n");
        assert_eq!(limit(cgroup, V2, &[own, above, high]).unwrap(), (64 << 20, high.0.to_owned()));
        let unlimited = ("/sys/fs/cgroup/system.slice/bbq.service/memory.max", "max\n");
        let machine = (1_000_000 * 1024, "the memory of the machine".to_owned());
        assert_eq!(limit(cgroup, V2, &[unlimited]).unwrap(), machine);
        assert_eq!(limit("", "", &[]).unwrap(), machine);
    }

    #[test]
    fn a_group_of_version_1_and_those_above_what_a_container_sees_apply() {
        let cgroup = "4:memory:/docker/abc/inner\n1:cpu,cpuacct:/x\n0::/\n";
        let own = ("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n");
        let top = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        assert_eq!(limit(cgroup, V1, &[own, top]).unwrap(), (512 << 20, top.0.to_owned()));
        let stat = (
            "/sys/fs/cgroup/memory/inner/memory.stat",
            "cache 1\nhierarchical_memory_limit 268435456\nrss 2\n",
        );
        assert_eq!(limit(cgroup, V1, &[own, top, stat]).unwrap(), (256 << 20, stat.0.to_owned()));
        // The group is not below what is mounted.
        assert_eq!(limit("4:memory:/elsewhere\n", V1, &[top]).unwrap().0, 512 << 20);
        assert_eq!(limit("4:memory:/docker/abc/../../x\n", V1, &[top]).unwrap().0, 512 << 20);
    }
}
