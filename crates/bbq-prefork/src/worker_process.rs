//! The process of a worker, as the master sees it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use bbq_listen::for_prefork::{ChildProcess, WAIT_FOR_CLONES};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::starts::Starts;

#[derive(Debug, Default)]
pub(crate) struct WorkerProcess {
    pub(crate) child: Option<ChildProcess>,
    /// Its last process ended, and nobody has its connections yet.
    pub(crate) ended: Option<(Pid, ExitStatus)>,
    pub(crate) starts: Starts,
}

impl WorkerProcess {
    /// Whether it has no process and will have none.
    pub(crate) fn has_ended(&self) -> bool {
        self.child.is_none() && self.ended.is_none() && self.starts.due().is_none()
    }
}

/// Waits for a child that has ended, or ends now.
pub(crate) fn wait(pid: Pid) -> io::Result<ExitStatus> {
    match rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::from_bits_retain(WAIT_FOR_CLONES))) {
        Ok(waited) => {
            Ok(waited.map_or(ExitStatus::default(), |(_, status)| ExitStatus::from_raw(status.as_raw())))
        }
        // Somebody else in this process has waited for it.
        Err(Errno::CHILD) => Ok(ExitStatus::default()),
        Err(errno) => Err(errno.into()),
    }
}

pub(crate) fn number_of(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
