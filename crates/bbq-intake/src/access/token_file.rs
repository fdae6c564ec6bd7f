//! The tokens of a listener as a SPEC configures them. The file is read and checked with the rest of the configuration.

use std::path::PathBuf;

use bbq_spec::FileStamp;

use super::tokens::Tokens;

/// A file of tokens. Two values are equal if they name the same file: new tokens in it do not change the configuration.
#[derive(Clone, Debug)]
pub struct TokenFile {
    /// Where the file is.
    pub path: PathBuf,
    /// The tokens as they were when the configuration was read.
    pub tokens: Tokens,
    /// Of the file, a moment before.
    pub stamp: Option<FileStamp>,
}

impl PartialEq for TokenFile {
    fn eq(&self, other: &TokenFile) -> bool {
        self.path == other.path
    }
}

impl Eq for TokenFile {}

impl TokenFile {
    /// Reads the file at this path.
    pub fn read(path: &str) -> Result<TokenFile, String> {
        let path = PathBuf::from(path);
        let stamp = FileStamp::of(&path);
        Ok(TokenFile { tokens: Tokens::read(&path)?, path, stamp })
    }
}
