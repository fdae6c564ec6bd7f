//! A secret: a password or a key that the configuration names and does not contain.
//!
//! Invariant: nothing that is shown, logged or serialized contains the secret; only [`Secret::expose`] returns it. Its memory is wiped
//! with the last copy.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use tracing::warn;
use zeroize::Zeroizing;

/// The longest secret. A private key with its certificates is several times smaller.
pub const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// Room that `read_to_end` wants behind the longest secret, to find its end.
const READ_ROOM_BYTES: usize = 64;
/// What is shown instead of a secret.
pub const SECRET_SHOWN: &str = "<secret>";
/// The bit of a file's mode that lets every user read the file, not only its owner and its group.
const OTHERS_READ: u32 = 0o004;

/// Tells the operator if every user can read a file that has secrets.
pub fn warn_if_others_read(path: &Path) {
    if let Ok(metadata) = fs::metadata(path) {
        warn_if_readable(path, &metadata);
    }
}

fn warn_if_readable(path: &Path, metadata: &Metadata) {
    if metadata.mode() & OTHERS_READ != 0 {
        warn!(path = %path.display(), "every user can read this secret; remove the permission with chmod o-r");
    }
}

/// A text that must not be seen.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Box<str>>>);

impl Secret {
    /// Reads a file. A line feed at its end does not belong to the secret.
    ///
    /// # Errors
    /// The file cannot be read, is no regular file, is empty or too large, or is not UTF-8.
    pub fn of_file(path: &Path) -> Result<Secret, String> {
        let shown = path.display();
        let unreadable = |error| format!("cannot read {shown}: {error}");
        // Checked before opening: opening a pipe would wait for its writer.
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(format!("{shown} is not a regular file"));
        }
        warn_if_readable(path, &metadata);
        // With room for all of it, as a buffer that grows leaves parts of the secret behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX as usize + READ_ROOM_BYTES));
        let file = File::open(path).map_err(unreadable)?;
        file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let text = str::from_utf8(&bytes).map_err(|_| format!("{shown} is not UTF-8"))?;
        let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        Secret::of_text(line.unwrap_or(text)).map_err(|problem| format!("{shown} {problem}"))
    }

    /// Reads an environment variable of this process, with the value that it had when the process started.
    ///
    /// # Errors
    /// The variable is not set, is empty or too large, or is not UTF-8.
    pub fn of_environment(name: &str) -> Result<Secret, String> {
        let value =
            std::env::var_os(name).ok_or_else(|| format!("environment variable {name} is not set"))?;
        let text = value.to_str().ok_or_else(|| format!("environment variable {name} is not UTF-8"))?;
        Secret::of_text(text).map_err(|problem| format!("environment variable {name} {problem}"))
    }

    /// A text that was read elsewhere.
    ///
    /// # Errors
    /// It is empty or too large.
    pub fn of_text(text: &str) -> Result<Secret, String> {
        match text.len() as u64 {
            0 => Err("is empty".to_owned()),
            1..=SECRET_BYTES_MAX => Ok(Secret(Arc::new(Zeroizing::new(text.into())))),
            _ => Err(format!("is larger than {SECRET_BYTES_MAX} bytes")),
        }
    }

    /// The secret itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SECRET_SHOWN)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SECRET_SHOWN)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(SECRET_SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes(bytes: &[u8]) -> Result<Secret, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        Secret::of_file(file.path())
    }

    #[test]
    fn one_line_feed_at_the_end_is_not_part_of_it() {
        for (bytes, secret) in [
            ("sesame", "sesame"),
            ("sesame\n", "sesame"),
            ("sesame\r\n", "sesame"),
            ("two\nlines\n\n", "two\nlines\n"),
            (" \t", " \t"),
        ] {
            assert_eq!(of_bytes(bytes.as_bytes()).unwrap().expose(), secret);
        }
        let longest = vec![b'x'; usize::try_from(SECRET_BYTES_MAX).unwrap()];
        assert_eq!(of_bytes(&longest).unwrap().expose().len(), longest.len());
    }

    #[test]
    fn what_is_no_secret_is_refused_without_being_shown() {
        let too_large = "sesame".repeat(20_000);
        for (bytes, says) in [
            (&b""[..], "is empty"),
            (b"\r\n", "is empty"),
            (b"sesame\xff", "is not UTF-8"),
            (too_large.as_bytes(), "is larger than 65536 bytes"),
        ] {
            let error = of_bytes(bytes).unwrap_err();
            assert!(error.contains(says) && !error.contains("sesame"), "{error}");
        }
        assert!(Secret::of_file(Path::new("/")).unwrap_err().contains("not a regular file"));
        assert!(Secret::of_file(Path::new("/nowhere")).unwrap_err().starts_with("cannot read /nowhere: "));
        assert!(Secret::of_environment("BBQ_NOT_SET").unwrap_err().contains("BBQ_NOT_SET is not set"));
        assert!(Secret::of_environment("PATH").is_ok());
    }

    #[test]
    fn it_is_not_shown() {
        let secret = of_bytes(b"sesame").unwrap();
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!((format!("{secret} {secret:?} {json}")), "<secret> <secret> \"<secret>\"");
    }
}
