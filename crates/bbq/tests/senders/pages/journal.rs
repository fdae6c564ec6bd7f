//! The script that sends the journal, with files of a journal that the test writes.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::page::{block, put};
use super::{text, wait_until};
use crate::support::program::Program;
use crate::support::unpacked;
use crate::support::{BBQ, Setup, run};

/// Appends entries to the journal, in the export format of systemd.
fn append(setup: &Setup, numbers: std::ops::Range<u64>) {
    let entry = |number: u64| {
        let microseconds = 1_767_225_600_000_000 + number;
        format!(
            "__REALTIME_TIMESTAMP={microseconds}\n__MONOTONIC_TIMESTAMP={number}\n\
             _BOOT_ID=0123456789abcdef0123456789abcdef\nPRIORITY=4\nSYSLOG_IDENTIFIER=shop\nMESSAGE=entry {number}\n\n"
        )
    };
    let entries: String = numbers.map(entry).collect();
    let file = setup.path().join("journal/test.journal");
    run(unpacked::journal_remote().arg("--output").arg(file).arg("-"), entries.as_bytes());
}

/// Ends the script and the programs that it has started: its process group.
struct Script(Program);

impl Script {
    fn start(script: &str, directory: &Path) -> Script {
        let programs = Path::new(BBQ).parent().expect("a directory").display();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(directory).env("PATH", path);
        Script(Program::start(command.stdin(Stdio::null()).process_group(0)))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // The shell is not waited for yet, so the group is still its own.
        let group = rustix::process::Pid::from_child(&self.0);
        let _ended = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[test]
fn new_entries_arrive_once_also_while_bbq_is_away() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    for directory in ["journal", "state"] {
        fs::create_dir(setup.path().join(directory)).expect("a directory");
    }
    let state = setup.path().join("state");
    append(&setup, 0..5);
    let journal = format!("journalctl --directory={}/journal ", setup.path().display());
    let address = setup.address(0).to_string();
    let example = put(
        &block("The journal of systemd", "sh", 0),
        &[("journalctl ", &journal), ("127.0.0.1:7700", &address)],
    );
    let script = Script::start(&example, &state);
    wait_until("the cursor", || fs::metadata(state.join("cursor")).is_ok_and(|file| file.len() > 0));
    append(&setup, 5..8);
    server.wait_delivered(3);
    assert_eq!(server.stop(), Some(0));
    append(&setup, 8..10);
    let server = setup.start();
    server.wait_delivered(5);
    drop(script);
    assert_eq!(server.stop(), Some(0));
    let written = text(setup.written());
    for number in 5..10 {
        assert_eq!(written.matches(&format!("\"MESSAGE\":\"entry {number}\"")).count(), 1, "{written}");
    }
}
