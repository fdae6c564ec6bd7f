//! The shared key of a listener of the Forward Protocol, and its users, as a SPEC configures them. Both are in files, which are read with the
//! configuration: a reload reads them again.
//!
//! ```text
//! # users_file: a comment, and a user with a password in each line.
//! till-4 6f1a4c0e9b7d52c8
//! ```
//!
//! The handshake proves that a client knows a password by a digest with a salt of the connection, so the server needs the password itself,
//! and not a digest as of tokens.
//!
//! Invariant: nothing here shows or logs a key or a password.

use std::path::Path;

use bbq_spec::{ConfigError, Part, Query, Secret, SpecOption, Values};

/// The option with the shared key.
pub(crate) const SHARED_KEY: SpecOption = SpecOption {
    key: "shared_key_file",
    values: Values::Text { form: "PATH", pattern: "." },
    default: "any client",
    meaning: "fluent: accepts only clients with the shared key in this file (`shared_key` in Fluentd and Fluent Bit)",
};
/// The option with the users.
pub(crate) const USERS: SpecOption = SpecOption {
    key: "users_file",
    values: Values::Text { form: "PATH", pattern: "." },
    default: "no users",
    meaning: "fluent: with a shared key, accepts only users from this file. Each line is NAME PASSWORD",
};

/// The most users: each handshake searches them.
const USERS_MAX: usize = 1000;

/// What clients must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedKey {
    key: Secret,
    /// `None` if clients need no user.
    users: Option<Vec<(String, Secret)>>,
}

impl SharedKey {
    /// Takes the options; `None` if there is no shared key.
    pub(crate) fn take(query: &mut Query<'_>, text: &str) -> Result<Option<SharedKey>, ConfigError> {
        let key = query.take(SHARED_KEY.key, |path| Secret::of_file(Path::new(path)))?;
        let users = query.take(USERS.key, read_users)?;
        match key {
            Some(key) => Ok(Some(SharedKey { key, users })),
            None if users.is_none() => Ok(None),
            None => {
                let why =
                    "users_file needs a shared key, which begins the handshake; write shared_key_file=PATH";
                Err(ConfigError::new(format!("{text:?}: {why}")).about(Part::Key(USERS.key.to_owned())))
            }
        }
    }

    pub(crate) fn key(&self) -> &str {
        self.key.expose()
    }

    pub(crate) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// The password of a user.
    pub(crate) fn password(&self, user: &str) -> Option<&str> {
        let (_, password) = self.users.as_ref()?.iter().find(|(name, _)| name == user)?;
        Some(password.expose())
    }
}

fn read_users(path: &str) -> Result<Vec<(String, Secret)>, String> {
    let text = Secret::of_file(Path::new(path))?;
    users(text.expose()).map_err(|problem| format!("{path}{problem}"))
}

/// Of the text of a file. An error does not show the line.
fn users(text: &str) -> Result<Vec<(String, Secret)>, String> {
    let mut users: Vec<(String, Secret)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words = line.split_once(char::is_whitespace).map(|(name, password)| (name, password.trim()));
        let Some((name, password)) = words else { return Err(format!(":{number}: write NAME PASSWORD")) };
        if users.iter().any(|(known, _)| known == name) {
            return Err(format!(":{number}: an earlier line has the same name"));
        }
        if users.len() == USERS_MAX {
            return Err(format!(":{number}: there are more than {USERS_MAX} users"));
        }
        users.push((name.to_owned(), Secret::of_text(password)?));
    }
    if users.is_empty() {
        Err(" has no user; write NAME PASSWORD in each line".to_owned())
    } else {
        Ok(users)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::listen::ListenSpec;

    #[test]
    fn key_and_users_are_read_and_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        fs::write(path("key"), "sesame-of-all\n").unwrap();
        fs::write(path("users"), "# tills\n\ntill-4 sesame 4\n").unwrap();
        let (key, users) = (path("key"), path("users"));
        let text = format!("fluent+tcp://127.0.0.1:1?shared_key_file={key}&users_file={users}");
        let spec = ListenSpec::parse(&text).unwrap();
        let shared = spec.shared_key.as_ref().unwrap();
        assert_eq!((shared.key(), shared.has_users()), ("sesame-of-all", true));
        assert_eq!(shared.password("till-4"), Some("sesame 4"));
        assert_eq!(shared.password("till-5"), None);
        assert!(!format!("{spec:?}").contains("sesame"));
        let without_key = ListenSpec::parse(&format!("fluent+tcp://127.0.0.1:1?users_file={users}"));
        assert!(without_key.unwrap_err().to_string().contains("write shared_key_file=PATH"));
        let elsewhere = ListenSpec::parse(&format!("lines+tcp://127.0.0.1:1?shared_key_file={key}"));
        assert!(elsewhere.unwrap_err().to_string().contains("only fluent has a handshake"));
        // Another key is another configuration.
        fs::write(path("key"), "another").unwrap();
        assert_ne!(ListenSpec::parse(&text).unwrap(), spec);
    }

    #[test]
    fn a_mistake_names_the_line_and_does_not_show_it() {
        for (text, says) in [
            ("# sesame", "has no user"),
            ("sesame", ":1: write NAME PASSWORD"),
            ("a sesame\na sesame2", ":2: an earlier line has the same name"),
        ] {
            let error = users(text).unwrap_err();
            assert!(error.contains(says) && !error.contains("sesame"), "{error}");
        }
    }
}
