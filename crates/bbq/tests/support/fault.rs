//! Faults of the system in one thread of a server, by strace(1) that is attached to the thread.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::PATIENCE;

/// Injects a fault until it is dropped; then a thread that it holds goes on.
pub struct Fault {
    child: Child,
    thread: u32,
}

impl Fault {
    /// `what` is the argument of `-e inject=`. The fault is active when this returns.
    pub fn inject(pid: u32, thread: &str, what: &str) -> Fault {
        Fault::inject_all(pid, thread, &[what])
    }

    /// Several at the same time.
    pub fn inject_all(pid: u32, thread: &str, each: &[&str]) -> Fault {
        let thread = thread_of(pid, thread);
        let each = each.iter().flat_map(|what| ["-e".to_owned(), format!("inject={what}")]);
        let mut child = Command::new("strace")
            .args(["-o", "/dev/null", "-p", &thread.to_string()])
            .args(each)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace runs; `cargo xtask test` installs it");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it is a pipe");
        assert!(line.contains("attached"), "{line}");
        // Later output must not stop strace.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Fault { child, thread }
    }

    /// Waits until the thread is held at the system call of this number.
    pub fn wait_held(&self, pid: u32, call: i64) {
        let start = Instant::now();
        let task = format!("/proc/{pid}/task/{}", self.thread);
        let call = format!("{call} ");
        let is_held = || {
            fs::read_to_string(format!("{task}/status")).is_ok_and(|status| status.contains("State:\tt"))
                && fs::read_to_string(format!("{task}/syscall")).is_ok_and(|now| now.starts_with(&call))
        };
        while !is_held() {
            assert!(start.elapsed() < PATIENCE, "it does not come to that call");
            std::thread::yield_now();
        }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // An interrupt makes strace detach; killing it would not harm the thread, either.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ended = self.child.wait();
    }
}

/// The number of a thread by its name. A thread names itself when it first runs, so one that was just made may have no name yet.
pub fn thread_of(pid: u32, name: &str) -> u32 {
    let is_it = |path: &Path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let find = || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let mut paths = tasks.map(|entry| entry.expect("an entry").path());
        paths.find(|path| is_it(path)).and_then(|path| path.file_name()?.to_str()?.parse().ok())
    };
    let start = Instant::now();
    loop {
        if let Some(thread) = find() {
            return thread;
        }
        assert!(start.elapsed() < PATIENCE, "no thread {name} in {pid}");
        std::thread::yield_now();
    }
}
