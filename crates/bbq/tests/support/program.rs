//! A program that a test starts beside its server.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};

use super::KilledIfThisFails;

/// Killed when dropped, so that a test that fails leaves nothing running.
pub struct Program(Child);

impl Program {
    pub fn start(command: &mut Command) -> Program {
        Program(command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started ({error})")))
    }

    /// One that was started.
    pub fn of(child: Child) -> Program {
        Program(child)
    }

    /// Kills the program if the test fails, for scopes whose threads wait for the program.
    pub fn killed_if_this_fails(&self) -> KilledIfThisFails {
        KilledIfThisFails::of(self)
    }
}

impl Deref for Program {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}
