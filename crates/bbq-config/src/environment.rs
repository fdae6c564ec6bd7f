//! The environment variables of a configuration: one for each key of the file.
//!
//! Invariant: values of other variables are not kept, as they may be secrets.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use bbq_spec::{ConfigError, EXEC_VARIABLE, nearest};

use crate::keys::FILE_KEYS;
use crate::place::Place;

/// How the name of each variable begins.
const PREFIX: &str = "BBQ_";
/// The file to read, as the option `--config` names it.
pub const FILE_VARIABLE: &str = "BBQ_CONFIG";
/// Set by a server for the program that takes its place.
pub const UPGRADE_VARIABLE: &str = "BBQ_UPGRADE_FROM";
/// Variables that are no keys: what is logged, the token of bbq's own clients, and the three above.
const OTHERS: [&str; 5] = ["BBQ_LOG", "BBQ_TOKEN", FILE_VARIABLE, UPGRADE_VARIABLE, EXEC_VARIABLE];

/// The variable of a key: `spool.bytes_max` is `BBQ_SPOOL_BYTES_MAX`.
#[must_use]
pub fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

/// The variables that configure a server. An empty variable is as one that is not set.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// By key.
    values: BTreeMap<&'static str, OsString>,
    file: Option<PathBuf>,
    /// The names of variables that are neither keys nor used otherwise.
    unknown: Vec<String>,
}

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub fn of_process() -> Environment {
        Environment::of(std::env::vars_os())
    }

    fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
        let mut environment = Environment::default();
        for (name, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
            if let Some(known) = FILE_KEYS.iter().find(|known| variable_of(known.option.key) == name) {
                environment.values.insert(known.option.key, value);
            } else if name == FILE_VARIABLE {
                environment.file = Some(value.into());
            } else if !OTHERS.contains(&name) && !is_of_a_service(name) {
                environment.unknown.push(name.to_owned());
            }
        }
        environment.unknown.sort_unstable();
        environment
    }

    /// The file to read.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        self.file.clone()
    }

    /// The values that are set: the key, its place, and the text.
    ///
    /// # Errors
    /// A value is not UTF-8.
    pub(super) fn texts(&self) -> impl Iterator<Item = Result<(&'static str, Place, &str), ConfigError>> {
        self.values.iter().map(|(key, value)| {
            let place = Place::Variable(variable_of(key));
            match value.to_str() {
                Some(text) => Ok((*key, place, text)),
                None => Err(ConfigError::new(format!("{key} is not UTF-8")).at(place.prefix())),
            }
        })
    }

    /// What to say of variables that look as if they were keys, but for those that `is_used` knows.
    pub(super) fn warnings(&self, is_used: impl Fn(&str) -> bool) -> Vec<String> {
        let mut known: Vec<String> = FILE_KEYS.iter().map(|known| variable_of(known.option.key)).collect();
        known.extend(OTHERS.map(str::to_owned));
        let known: Vec<&str> = known.iter().map(|name| bare(name)).collect();
        let warning = |name: &String| {
            let near = nearest(bare(name), &known);
            let hint = near.map(|near| format!("; did you mean {PREFIX}{near}?")).unwrap_or_default();
            format!("environment variable {name} has no effect: there is no such key{hint}")
        };
        self.unknown.iter().filter(|name| !is_used(name)).map(warning).collect()
    }
}

/// A name without what all have in common, which would make all of them similar.
fn bare(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The SPECs in a variable: one in each line; or, in a single line, between semicolons.
pub(super) fn specs(text: &str) -> impl Iterator<Item = &str> {
    let separator = if text.contains('\n') { '\n' } else { ';' };
    text.split(separator).map(str::trim).filter(|spec| !spec.is_empty())
}

/// Whether Kubernetes makes this variable for a service whose name begins with bbq: `BBQ_PORT_7700_TCP_ADDR`, `BBQ_SERVICE_HOST`.
fn is_of_a_service(name: &str) -> bool {
    let is_number = |text: &str| text.bytes().next().is_some_and(|first| first.is_ascii_digit());
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.split_once("_PORT_").is_some_and(|(_, rest)| is_number(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::of(variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
    }

    #[test]
    fn each_key_has_a_variable_of_its_own() {
        let mut variables: Vec<String> =
            FILE_KEYS.iter().map(|known| variable_of(known.option.key)).collect();
        variables.extend(OTHERS.map(str::to_owned));
        let all = variables.len();
        variables.sort_unstable();
        variables.dedup();
        assert_eq!(variables.len(), all);
        assert_eq!(variable_of("spool.bytes_max"), "BBQ_SPOOL_BYTES_MAX");
        assert!(variables.iter().all(|name| !is_of_a_service(name)));
    }

    #[test]
    fn what_is_no_key_is_told_but_for_what_others_set() {
        let set = environment(&[
            ("BBQ_WORKER", "2"),
            ("BBQ_SPOOL_BYTE_MAX", "1GiB"),
            ("BBQ_LOG", "debug"),
            ("BBQ_TOKEN", "sesame"),
            ("BBQ_UPGRADE_FROM", "1"),
            ("BBQ_PORT", "tcp://10.0.0.1:7700"),
            ("BBQ_PORT_7700_TCP_ADDR", "10.0.0.1"),
            ("BBQ_ADMIN_SERVICE_PORT_HTTP", "7790"),
            ("BBQ_OF_A_SINK", "sesame"),
            ("BBQ_EMPTY", ""),
            ("PATH", "/bin"),
        ]);
        let said = set.warnings(|name| name == "BBQ_OF_A_SINK");
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].contains("BBQ_SPOOL_BYTE_MAX") && said[0].ends_with("did you mean BBQ_SPOOL_BYTES_MAX?")
        );
        assert!(said[1].contains("BBQ_WORKER ") && said[1].ends_with("did you mean BBQ_WORKERS?"));
        assert!(!format!("{set:?}").contains("sesame"));
    }

    #[test]
    fn specs_stand_in_lines_or_between_semicolons() {
        let of = |text| specs(text).collect::<Vec<_>>();
        assert_eq!(of("a; b ;;"), ["a", "b"]);
        assert_eq!(of("exec:sh -c 'a; b'\n"), ["exec:sh -c 'a; b'"]);
        assert_eq!(of("\n  a\n  b\n"), ["a", "b"]);
    }
}
