//! Servers that end when this program does, however it ends. The program starts itself, asks the kernel for a signal when its
//! parent ends, and becomes the server.
//!
//! `bench-server` needs none: it ends with its standard input. The peers' clients end by themselves.
//!
//! The kernel sends the signal when the thread that started the server ends. So the main thread starts servers.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// How a server ends when this program is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// For one that is a single process.
    Kill,
    /// For one that has processes of its own to end.
    Terminate,
}

/// `command`, on the leash: its program and arguments.
pub(crate) fn put_on(command: &Command, end: End) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut leashed = Command::new(program);
    leashed.arg("bench-leash").arg(std::process::id().to_string());
    leashed.arg(match end {
        End::Kill => "kill",
        End::Terminate => "terminate",
    });
    leashed.arg(command.get_program()).args(command.get_args());
    Ok(leashed)
}

/// Becomes `program`, which gets a signal when process `parent` ends, this one's parent.
///
/// # Errors
/// Always: it returns only if that cannot be, or nobody is there any more to want it.
pub fn leash(parent: u32, end: End, program: &OsString, arguments: &[OsString]) -> anyhow::Result<()> {
    let signal = match end {
        End::Kill => Signal::KILL,
        End::Terminate => Signal::TERM,
    };
    set_parent_process_death_signal(Some(signal)).context("prctl PR_SET_PDEATHSIG")?;
    // It may have ended before that.
    let now = getppid().and_then(|pid| u32::try_from(Pid::as_raw(Some(pid))).ok());
    anyhow::ensure!(now == Some(parent), "process {parent} has ended");
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
