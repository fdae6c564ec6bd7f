//! rsyslog with imfile, from Debian's packages that are only unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::beside::Other;
use super::kind::Kind;

/// How it keeps its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// Every 1,000 lines of a file, and a queue in memory
    Usual,
    /// Also after each batch, and no queue: what is read is written before the position moves. (After each line, it reads a few thousand
    /// lines a second, and what it has not read before a rotation is lost.)
    Most,
}

pub(super) fn new(packages: &Path, directory: &Path, logs: &Path, care: Care) -> Result<Other> {
    let name = match care {
        Care::Usual => "rsyslog",
        Care::Most => "rsyslog, safest",
    };
    let own = directory.join(match care {
        Care::Usual => "rsyslog",
        Care::Most => "rsyslog-safest",
    });
    fs::create_dir_all(own.join("state"))?;
    fs::create_dir_all(own.join("out"))?;
    let packages = fs::canonicalize(packages)
        .with_context(|| format!("{}: `cargo xtask soak files` unpacks rsyslog", packages.display()))?;
    let libraries = libraries(&packages)?;
    let configuration = own.join("rsyslog.conf");
    fs::write(&configuration, text(&own, logs, care))?;
    let command = move || {
        let mut command = Command::new(packages.join("usr/sbin/rsyslogd"));
        command.env("LD_LIBRARY_PATH", &libraries).arg("-M").arg(libraries.join("rsyslog"));
        // Without a file of its process id: a killed one leaves it behind.
        command.args(["-n", "-i", "NONE", "-f"]).arg(&configuration);
        command
    };
    Ok(Other::new(name, &own, logs, command, |line, see| see(line)))
}

/// Where its libraries are, which depends on the machine.
fn libraries(packages: &Path) -> Result<PathBuf> {
    let below = packages.join("usr/lib");
    let entries = fs::read_dir(&below)?.flatten().map(|entry| entry.path());
    let found = entries.into_iter().find(|path| path.join("rsyslog/imfile.so").is_file());
    found.with_context(|| format!("{} has no rsyslog/imfile.so", below.display()))
}

fn text(own: &Path, logs: &Path, care: Care) -> String {
    let (queue, positions) = match care {
        Care::Usual => ("", "persistStateInterval=\"1000\""),
        Care::Most => (
            "main_queue(queue.type=\"Direct\")\n",
            "persistStateInterval=\"1000\" persistStateAfterSubmission=\"on\"",
        ),
    };
    let inputs: String = Kind::ALL
        .iter()
        .map(|kind| {
            // A new file is not read if the name of the renamed one also matches.
            let files = logs.join(kind.name()).join("*.log");
            let truncated = if *kind == Kind::CopyTruncate { " reopenOnTruncate=\"on\"" } else { "" };
            format!("input(type=\"imfile\" tag=\"x\" file=\"{}\" {positions}{truncated})\n", files.display())
        })
        .collect();
    format!(
        "global(workDirectory=\"{own}/state\")\n\
         module(load=\"imfile\")\n{queue}{inputs}\
         template(name=\"line\" type=\"string\" string=\"%msg%\\n\")\n\
         action(type=\"omfile\" file=\"{own}/out/messages.log\" template=\"line\")\n",
        own = own.display()
    )
}
