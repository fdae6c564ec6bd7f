//! Programs of packages that `cargo xtask test` only unpacks, as they cannot be installed beside others.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// `senders` beside the directory of the release profile, in which this program is.
fn root() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    program.ancestors().nth(3).expect("the target directory").join("senders")
}

/// The directory of libraries: `usr/lib/ARCHITECTURE`.
fn libraries() -> PathBuf {
    let entries = fs::read_dir(root().join("usr/lib")).expect("cargo xtask test unpacks it");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.find(|path| path.join("rsyslog").is_dir()).expect("cargo xtask test unpacks it")
}

fn program(path: &str) -> Command {
    let program = root().join(path);
    assert!(program.is_file(), "{} is missing: cargo xtask test unpacks it", program.display());
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries());
    command
}

/// rsyslogd, with its modules.
pub fn rsyslogd() -> Command {
    let mut command = program("usr/sbin/rsyslogd");
    command.arg("-M").arg(libraries().join("rsyslog"));
    command
}

/// Prometheus's server.
pub fn prometheus() -> Command {
    program("usr/bin/prometheus")
}

/// Prometheus's checks of configurations and rules.
pub fn promtool() -> Command {
    program("usr/bin/promtool")
}

/// What writes files of the journal.
pub fn journal_remote() -> Command {
    program("lib/systemd/systemd-journal-remote")
}

/// What sends the journal to systemd-journal-remote.
pub fn journal_upload() -> Command {
    program("lib/systemd/systemd-journal-upload")
}
