//! What reads the files: bbq, or another program.

use std::path::Path;

use anyhow::Result;

use crate::watch::{self, Held};

pub(super) trait Tool {
    fn name(&self) -> &str;

    /// Starts what does not run. Does not wait until it is ready.
    fn start(&mut self) -> Result<()>;

    /// Kills the process that reads (SIGKILL).
    fn kill_reader(&mut self) -> Result<()>;

    /// Kills the server behind it, if there is one.
    fn kill_server(&mut self) -> Result<()>;

    fn starts_server(&mut self) -> Result<()>;

    /// The processes that read.
    fn pids(&self) -> Vec<u32>;

    /// Whether so many lines, and all that can be seen of files, have come to the end.
    fn is_quiet(&mut self, lines: u64) -> Result<bool>;

    /// Whether nothing is left to read in files below a directory that were deleted. So many lines were written.
    fn has_read_deleted(&self, lines: u64, below: &Path) -> bool;

    /// Why it is not quiet.
    fn state(&self) -> String;

    /// Stops all of it in order.
    fn stop(&mut self) -> Result<()>;

    /// Calls `see` with each line that came out.
    fn read(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// The files below a directory that it has open.
    fn held(&self, below: &Path) -> Vec<Held> {
        self.pids().into_iter().flat_map(|pid| watch::held(pid, below)).collect()
    }
}
