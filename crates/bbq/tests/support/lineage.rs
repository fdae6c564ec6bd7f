//! A server and its successors by upgrades. A successor becomes a child of the test when its starter has ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};
use serde_json::Value;

use super::{BBQ, PATIENCE, Setup, assert_balanced};

/// The process that serves now. Killed when dropped.
pub struct Lineage<'a> {
    setup: &'a Setup,
    pid: u32,
}

impl<'a> Lineage<'a> {
    /// Starts the first server, which is ready when this returns.
    pub fn start(setup: &'a Setup) -> Lineage<'a> {
        let lineage = Lineage::spawn(setup);
        setup.wait_ready();
        lineage
    }

    /// Starts the first server, and does not wait until it is ready.
    #[expect(clippy::zombie_processes, reason = "waited for by its number, as are those after it")]
    pub fn spawn(setup: &'a Setup) -> Lineage<'a> {
        // A process whose parent ends becomes a child of this process, which can wait for it.
        set_child_subreaper(Some(Pid::INIT)).expect("Linux 3.4");
        let log = fs::OpenOptions::new().create(true).append(true).open(setup.path().join("log"));
        let child = setup
            .command()
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("the server starts");
        Lineage { setup, pid: child.id() }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(pid(self.pid), signal).expect("it runs");
    }

    /// SIGUSR2; returns when the old process has ended in order and the new one is ready.
    pub fn upgrade(&mut self) {
        let ready = self.count("ready pid=");
        self.ask(Signal::USR2, "handed over pid=");
        self.upgraded(ready + 1);
    }

    /// Waits until a successor with this number in the log is ready.
    pub fn upgraded(&mut self, ready: usize) {
        let old = self.pid;
        assert_eq!(self.wait_end(old), Some(0), "{}", self.setup.log());
        self.pid = self.last("handed over pid=");
        self.wait_log("ready pid=", ready);
        assert_eq!(self.last("ready pid="), self.pid);
    }

    /// SIGHUP; returns when the reload is done.
    pub fn reload(&self) {
        self.ask(Signal::HUP, "reloaded");
    }

    /// A signal whose change ends with these words in the log. If a sync takes seconds, the change is cancelled; then the signal is sent
    /// again.
    fn ask(&self, signal: Signal, done: &str) {
        const CANCELLED: &str = "did not commit within";
        let start = Instant::now();
        let (before, mut cancelled) = (self.count(done), self.count(CANCELLED));
        self.signal(signal);
        while self.count(done) <= before {
            assert!(start.elapsed() < PATIENCE, "{done:?} did not come\n{}", self.setup.log());
            if self.count(CANCELLED) > cancelled {
                cancelled += 1;
                self.signal(signal);
            }
            std::thread::yield_now();
        }
    }

    /// A signal whose change is refused; returns why.
    pub fn refused(&self, signal: Signal) -> String {
        let before = self.count("refused; the server continues as before");
        self.signal(signal);
        self.wait_log("refused; the server continues as before", before + 1);
        self.status()["refused_change"].as_str().expect("it says why").to_owned()
    }

    /// Waits until the log has this many lines with these words.
    pub fn wait_log(&self, words: &str, times: usize) {
        let start = Instant::now();
        while self.count(words) < times {
            assert!(start.elapsed() < PATIENCE, "{words:?} did not come\n{}", self.setup.log());
            std::thread::yield_now();
        }
    }

    pub fn count(&self, words: &str) -> usize {
        // An incomplete line counts when it is complete.
        let log = self.setup.log();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        whole.lines().filter(|line| line.contains(words)).count()
    }

    /// The number behind the last of these words in the log.
    fn last(&self, words: &str) -> u32 {
        let log = self.setup.log();
        let last = log.lines().rev().find_map(|line| line.split_once(words));
        let behind = last.unwrap_or_else(|| panic!("no {words:?}\n{log}")).1;
        behind.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// `bbq status --json`.
    pub fn status(&self) -> Value {
        let output = Command::new(BBQ).args(["status", "--json", "--admin", &self.setup.admin()]).output();
        let output = output.expect("status runs");
        assert!(output.status.success(), "{output:?}\n{}", self.setup.log());
        serde_json::from_slice(&output.stdout).expect("status is JSON")
    }

    pub fn wait_status(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "{what} did not come\n{status:#}\n{}", self.setup.log());
        }
    }

    /// Waits until this many messages were received and delivered, and checks that the ledger balances.
    pub fn wait_delivered(&self, messages: u64) -> Value {
        let status = self.wait_status(&format!("delivery of {messages}"), |status| {
            status["ledger"]["delivered"].as_u64() >= Some(messages) && status["ledger"]["queued"] == 0
        });
        assert_eq!(status["ledger"]["received"], messages, "{status:#}");
        assert_balanced(&status);
        status
    }

    /// SIGTERM; returns the exit code.
    pub fn stop(self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait_end(self.pid)
    }

    /// Waits until a process has ended; returns the exit code, if no signal ended it.
    pub fn wait_end(&self, number: u32) -> Option<i32> {
        let start = Instant::now();
        loop {
            match waitpid(Some(pid(number)), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => return status.exit_status(),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("{number}: {error}"),
            }
            assert!(start.elapsed() < PATIENCE, "{number} does not end\n{}", self.setup.log());
            std::thread::yield_now();
        }
    }

    /// Inodes of the sockets on a port, for tcp those that listen, in the order of /proc. Each must be open in the server.
    pub fn inodes(&self, protocol: &str, port: u16) -> Vec<u64> {
        let table = fs::read_to_string(format!("/proc/{}/net/{protocol}", self.pid)).expect("it runs");
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        let state = if protocol == "tcp" { "0A" } else { "07" };
        let listens = rows.filter(|row| row[1].ends_with(&format!(":{port:04X}")) && row[3] == state);
        let mut inodes: Vec<u64> = listens.map(|row| row[9].parse().expect("an inode")).collect();
        inodes.sort_unstable();
        let open: Vec<PathBuf> = fs::read_dir(format!("/proc/{}/fd", self.pid))
            .expect("it runs")
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .collect();
        for inode in &inodes {
            let link = format!("socket:[{inode}]");
            assert!(open.iter().any(|path| path == Path::new(&link)), "{inode} is not the server's");
        }
        inodes
    }
}

impl Drop for Lineage<'_> {
    fn drop(&mut self) {
        // It has ended and was waited for, or ends now; a successor on its way ends with it. Only a child that was not waited for
        // has this number.
        if matches!(waitpid(Some(pid(self.pid)), WaitOptions::NOHANG), Ok(None)) {
            let _ended = kill_process(pid(self.pid), Signal::KILL);
            let _ended = waitpid(Some(pid(self.pid)), WaitOptions::empty());
        }
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed()).expect("a process")
}
