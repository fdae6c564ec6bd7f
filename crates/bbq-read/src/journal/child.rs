//! The process of journalctl, its output and its errors.
//!
//! It is in a process group of its own, so that a signal to the server's group does not end it before the server. Without the server,
//! journalctl ends when it finds its output closed.
//!
//! Invariant: a process that was started is reaped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

/// What of the last line of errors is kept.
const ERROR_BYTES_MAX: usize = 1024;
/// Reads of its errors in a pass: a program that writes without end does not keep the reader.
const ERROR_READS_MAX: usize = 16;
/// What the service manager, or the program before an upgrade, tells the server alone, and what changes what journalctl writes.
const NOT_INHERITED: [&str; 9] = [
    "NOTIFY_SOCKET",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "BBQ_UPGRADE_FROM",
    "SYSTEMD_LOG_LEVEL",
    "SYSTEMD_LOG_TARGET",
];

/// See the module.
pub(crate) struct Child {
    process: std::process::Child,
    output: OwnedFd,
    error: OwnedFd,
    /// The last line of errors, and whether the line feed behind it has come.
    last_line: Vec<u8>,
    is_line_over: bool,
    /// Whether the errors are at their end.
    pub(crate) is_error_closed: bool,
}

impl Child {
    /// Starts the program.
    ///
    /// # Errors
    /// The system cannot start it. No process is left.
    pub(crate) fn start(program: &Path, arguments: &[String]) -> io::Result<Child> {
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).env("SYSTEMD_COLORS", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        let mut process = command.spawn()?;
        let (Some(output), Some(error)) = (process.stdout.take(), process.stderr.take()) else {
            process.kill()?;
            process.wait()?;
            return Err(io::Error::other("it has no pipes"));
        };
        let child = Child {
            process,
            output: output.into(),
            error: error.into(),
            last_line: Vec::new(),
            is_line_over: false,
            is_error_closed: false,
        };
        fcntl_setfl(&child.output, OFlags::NONBLOCK)?;
        fcntl_setfl(&child.error, OFlags::NONBLOCK)?;
        Ok(child)
    }

    pub(crate) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    pub(crate) fn error(&self) -> BorrowedFd<'_> {
        self.error.as_fd()
    }

    /// Reads what it has written. `None` if there is nothing now, and 0 at the end.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.output, buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what it has written of errors.
    pub(crate) fn take_errors(&mut self) {
        let mut buffer = [0; 4096];
        for _ in 0..ERROR_READS_MAX {
            let bytes = match rustix::io::read(&self.error, &mut buffer) {
                Ok(0) => {
                    self.is_error_closed = true;
                    return;
                }
                Ok(bytes) => bytes,
                Err(_) => return,
            };
            for byte in &buffer[..bytes] {
                if *byte == b'\n' {
                    self.is_line_over = true;
                    continue;
                }
                if std::mem::take(&mut self.is_line_over) {
                    self.last_line.clear();
                }
                if self.last_line.len() < ERROR_BYTES_MAX {
                    self.last_line.push(*byte);
                }
            }
        }
    }

    /// Ends it. Returns what its end was, and its last line of errors, in words.
    pub(crate) fn end(mut self) -> String {
        self.kill();
        let how = match self.process.wait() {
            Ok(status) => status.to_string(),
            // The server was started to ignore SIGCHLD: the kernel has reaped it.
            Err(error) => error.to_string(),
        };
        self.take_errors();
        let line = String::from_utf8_lossy(&self.last_line);
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match line.trim() {
            "" => how,
            line => format!("{how}: {line}"),
        }
    }

    /// Only before it is reaped: its number may be another group's then.
    fn kill(&self) {
        // It may have ended.
        let _ended = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Reaped already, or killed and reaped now.
        if let Ok(None) = self.process.try_wait() {
            self.kill();
            let _reaped = self.process.wait();
        }
    }
}
