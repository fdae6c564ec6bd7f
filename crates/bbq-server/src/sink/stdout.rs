//! Standard output. What was written counts as delivered; after a crash the messages since the last commit come again.

use std::io::{self, Write};

use super::Output;

pub(super) struct StdoutOutput;

impl Output for StdoutOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    fn commit(&mut self) -> io::Result<String> {
        Ok(String::new())
    }

    fn rotation_due(&mut self) -> Option<String> {
        None
    }

    fn rotate(&mut self) -> io::Result<()> {
        Ok(())
    }
}
