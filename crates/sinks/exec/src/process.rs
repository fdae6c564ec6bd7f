//! The processes of a run: `/bin/sh` with the command, in a process group of its own, and what it starts.
//!
//! The standard library gives the child an empty signal mask and the default action for SIGPIPE; exec(2) resets what the server
//! catches. Every descriptor of the server is closed by exec(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use bbq_spec::EXEC_VARIABLE;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

const SHELL: &str = "/bin/sh";
/// What the service manager, or the program before an upgrade, tells the server alone.
const NOT_INHERITED: [&str; 7] = [
    "NOTIFY_SOCKET",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "BBQ_UPGRADE_FROM",
];

/// See the module.
pub(super) struct Process {
    /// The leader of the group.
    child: Child,
    pid: Pid,
    /// Readable once the leader has ended; `None` where the system gives no pidfd.
    pidfd: Option<OwnedFd>,
}

/// The server's ends of the pipes. They do not block.
pub(super) struct Pipes {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) error: OwnedFd,
}

impl Pipes {
    fn of(child: &mut Child) -> io::Result<Pipes> {
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(error)) = pipes else {
            return Err(io::Error::other("the shell has no pipes"));
        };
        let pipes = Pipes { input: input.into(), output: output.into(), error: error.into() };
        for pipe in [&pipes.input, &pipes.output, &pipes.error] {
            fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        Ok(pipes)
    }
}

impl Process {
    /// Starts a command, and tells it what `options` say.
    ///
    /// # Errors
    /// The system cannot start the shell. No process is left.
    pub(super) fn start(command: &str, options: &str) -> io::Result<(Process, Pipes)> {
        let mut shell = Command::new(SHELL);
        shell.arg("-c").arg(command).process_group(0).env(EXEC_VARIABLE, options);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in NOT_INHERITED {
            shell.env_remove(name);
        }
        let mut child = shell
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot start {SHELL}: {error}")))?;
        let pid = Pid::from_child(&child);
        let pipes = Pipes::of(&mut child);
        let mut process = Process { child, pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok() };
        match pipes {
            Ok(pipes) => Ok((process, pipes)),
            Err(error) => {
                process.signal(Signal::KILL);
                process.child.wait()?;
                Err(error)
            }
        }
    }

    /// Readable once the command has ended.
    pub(super) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether the command has ended. Processes that it started may go on.
    pub(super) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(ended) => ended.is_some(),
            // The server was started to ignore SIGCHLD: the kernel has reaped it.
            Err(error) => error == Errno::CHILD,
        }
    }

    /// Sends a signal to the process group. To be called before the leader is reaped.
    pub(super) fn signal(&self, signal: Signal) {
        // All of them may have ended.
        let _ended = kill_process_group(self.pid, signal);
    }

    /// Reaps a command that has ended. Returns `None` if the kernel has reaped it.
    pub(super) fn reap(mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}
