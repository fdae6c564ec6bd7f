//! A control group with a limit of memory, for one server. It ends with the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the memory controller of a version is, and the file of its limit.
const PLACES: [(&str, &str); 3] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
    ("/sys/fs/cgroup/unified", "memory.max"),
];

pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// `None` for a user or a machine that cannot make one: the test says so, and shows nothing.
    pub fn with_memory(bytes: u64) -> Option<ControlGroup> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("bbq-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        for (place, file) in PLACES {
            if file == "memory.max" {
                // Fails where it is on already, or where the controller belongs to version 1.
                let _on = fs::write(Path::new(place).join("cgroup.subtree_control"), "+memory");
            }
            let group = ControlGroup(Path::new(place).join(&name));
            if fs::create_dir(&group.0).is_ok()
                && group.0.join(file).exists()
                && fs::write(group.0.join(file), bytes.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        println!(
            "skipped: this user cannot make a control group with a limit of memory on this machine; run the test as root"
        );
        None
    }

    /// The command that runs another one in the group.
    pub fn prefix(&self) -> Vec<String> {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh", "-c", &script, "sh"].map(str::to_owned).into()
    }

    /// How many processes of the group the kernel has killed because of the limit.
    pub fn killed(&self) -> u64 {
        let files = ["memory.oom_control", "memory.events"].map(|file| fs::read_to_string(self.0.join(file)));
        let line = |text: String| {
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")).and_then(|count| count.parse().ok())
        };
        files.into_iter().flatten().find_map(line).expect("the kernel counts")
    }

    /// The most memory that the group has had, page cache and all, in MiB.
    pub fn peak_mib(&self) -> u64 {
        let files =
            ["memory.max_usage_in_bytes", "memory.peak"].map(|file| fs::read_to_string(self.0.join(file)));
        let bytes = |text: String| text.trim().parse::<u64>().ok();
        files.into_iter().flatten().find_map(bytes).map_or(0, |bytes| bytes >> 20)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Fails as long as a process is in it: the server is dropped before.
        let _removed = fs::remove_dir(&self.0);
    }
}
