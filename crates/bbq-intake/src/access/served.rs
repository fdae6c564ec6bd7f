//! The tokens that a listener accepts now. They can be replaced at any time: a session whose token is removed from the file ends
//! at its next batch.
//!
//! Invariant: a file that cannot be used never replaces the tokens in use.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbq_spec::FileStamp;
use tracing::{error, info};

use super::token_file::TokenFile;
use super::tokens::{Admission, Denied, Tokens};

/// A listener's tokens, shared by its workers, the status and control.
#[derive(Debug)]
pub struct ServedTokens {
    path: PathBuf,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    tokens: Arc<Tokens>,
    /// The file at the last check. It is read when two checks find the same change, as it may be half written at the first.
    seen: Option<FileStamp>,
    /// The file when it was last read.
    read: Option<FileStamp>,
    /// Why the present content of the file is not used.
    problem: Option<String>,
}

impl ServedTokens {
    /// Serves the tokens that the configuration has read.
    pub fn of_file(file: &TokenFile) -> Arc<ServedTokens> {
        Arc::new(ServedTokens::new(file.path.clone(), file.tokens.clone(), file.stamp))
    }

    /// Serves tokens that were read from a file, whose stamp was taken before.
    fn new(path: PathBuf, tokens: Tokens, stamp: Option<FileStamp>) -> ServedTokens {
        ServedTokens {
            path,
            now: Mutex::new(Now { tokens: Arc::new(tokens), seen: stamp, read: stamp, problem: None }),
        }
    }

    /// Serves the tokens of a text: those of a simulation, which has no file.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn of_text(text: &str) -> Result<ServedTokens, String> {
        Ok(ServedTokens::new(PathBuf::new(), Tokens::of_text(text)?, None))
    }

    /// Whether the tokens are of this file.
    pub fn is_of(&self, path: &std::path::Path) -> bool {
        self.path == path
    }

    /// Returns the admission of the shown token.
    pub fn check(&self, shown: Option<&str>) -> Result<Arc<Admission>, Denied> {
        // Workers must not wait for each other's checks, so the lock is not held during a check.
        let tokens = Arc::clone(&self.now().tokens);
        tokens.check(shown)
    }

    /// Accepts these tokens from now on. Returns `true` if the file has changed since the previous ones were read.
    pub fn replace(&self, mut tokens: Tokens, stamp: Option<FileStamp>) -> bool {
        let mut now = self.now();
        let has_changed = stamp != now.read || now.problem.is_some();
        tokens.replace(&now.tokens);
        *now = Now { tokens: Arc::new(tokens), seen: stamp, read: stamp, problem: None };
        has_changed
    }

    /// Reads the file again if it has changed. This waits for the disk, so it must not run on a worker's thread.
    pub fn reload_if_changed(&self, listener: &str) {
        let stamp = FileStamp::of(&self.path);
        {
            let mut now = self.now();
            let is_settled = std::mem::replace(&mut now.seen, stamp) == stamp;
            if !is_settled || stamp == now.read {
                return;
            }
            now.read = stamp;
        }
        match Tokens::read(&self.path) {
            Ok(tokens) => {
                self.replace(tokens, stamp);
                info!(listener, "new tokens: those that are no longer in the file are refused");
            }
            Err(problem) => {
                error!(
                    listener,
                    problem, "the new file of tokens cannot be used; the previous tokens are still valid"
                );
                self.now().problem = Some(problem);
            }
        }
    }

    /// What a person must fix, if anything.
    pub fn problem(&self) -> Option<String> {
        self.now().problem.clone()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
