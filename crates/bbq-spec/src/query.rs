//! The options of a SPEC: each key at most once, no unknown keys, each value checked.

use std::path::Path;

use crate::error::{ConfigError, Part};
use crate::secret::Secret;
use crate::spec_text::{SpecText, question_mark_hint};
use crate::values::Values;

/// An option of a SPEC, or a key of the file. Parsing, error messages, help, documentation and the JSON Schema use this value.
#[derive(Clone, Debug)]
pub struct SpecOption {
    /// The word in front of the equals sign, and the key in a table of the file.
    pub key: &'static str,
    /// The accepted values.
    pub values: Values,
    /// The value if the option is not given.
    pub default: &'static str,
    /// What the option is for.
    pub meaning: &'static str,
}

/// The name of a listener or a sink, which every kind has.
pub static NAME_OPTION: SpecOption = SpecOption {
    key: "name",
    values: Values::Text {
        form: "1 to 200 bytes without control characters",
        pattern: "^[^\\u0000-\\u001f\\u007f]{1,200}$",
    },
    default: "the SPEC without its options",
    meaning: "its name in the spool, the status and the log; with another name it is a new listener or sink",
};
/// 256 names of this length fit the header of the smallest segment. The spool shortens only names over 512 bytes.
const NAME_BYTES_MAX: usize = 200;

impl SpecOption {
    /// The words in front of the equals sign: the key, or for a secret `KEY_file` and `KEY_env`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        match self.values {
            Values::Secret => ["file", "env"].map(|place| format!("{}_{place}", self.key)).into(),
            _ => vec![self.key.to_owned()],
        }
    }
}

/// The options of one SPEC. Each is taken out by the code that uses it.
pub struct Query<'a> {
    /// The SPEC, for errors.
    spec: String,
    /// The name once it is taken, and until then the SPEC without its options.
    name: String,
    options: Vec<&'static SpecOption>,
    pairs: Vec<(&'a str, &'a str)>,
    taken: Vec<&'a str>,
    secrets: Vec<Secret>,
}

impl<'a> Query<'a> {
    /// The options given in `spec`; `options` lists those that are known.
    ///
    /// # Errors
    /// An option is unknown, or a secret is written in the SPEC. The message shows no value that may be a secret.
    pub fn of(
        spec: &'a SpecText,
        options: impl IntoIterator<Item = &'static SpecOption>,
    ) -> Result<Query<'a>, ConfigError> {
        let options: Vec<&SpecOption> = options.into_iter().collect();
        let words: Vec<String> = options.iter().flat_map(|option| option.words()).collect();
        let is_known = |key: &str| words.iter().any(|word| word == key);
        let mut secrets = options.iter().filter(|option| option.values == Values::Secret);
        // Somebody may have written the secret itself in place of the variable, or a password into a URL.
        let is_secret = |key: &str, value: &str| {
            has_user(value)
                || !is_name(value) && secrets.clone().any(|option| key == format!("{}_env", option.key))
        };
        let shown = spec.shown(|key, value| is_known(key) && !is_secret(key, value));
        let is_written = |option: &&&SpecOption| spec.options.iter().any(|(key, _)| key == option.key);
        if let Some(SpecOption { key, .. }) = secrets.find(is_written) {
            return Err(ConfigError::new(format!(
                "{shown:?}: {key} is a secret and must not be written here; write {key}_file=PATH or {key}_env=NAME"
            ))
            .about(Part::Key((*key).to_owned())));
        }
        if let Some((key, _)) = spec.options.iter().find(|(key, _)| !is_known(key)) {
            return Err(unknown(&shown, key, &options));
        }
        let pairs = spec.options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let name = spec.head.clone();
        Ok(Query { spec: shown, name, options, pairs, taken: Vec::new(), secrets: Vec::new() })
    }

    /// Takes the name; the default is the SPEC without its options.
    ///
    /// # Errors
    /// The given name is no name.
    pub fn take_name(&mut self, spec: &SpecText) -> Result<String, ConfigError> {
        let name = self.take(NAME_OPTION.key, |name| checked_name(name).map(str::to_owned))?;
        self.name = name.unwrap_or_else(|| spec.head.clone());
        Ok(self.name.clone())
    }

    /// The name, for the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes an option. `read` parses the value, or returns what is allowed.
    ///
    /// # Errors
    /// What `read` says.
    pub fn take<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(index) = self.pairs.iter().position(|(known, _)| *known == key) else { return Ok(None) };
        let (key, value) = self.pairs.swap_remove(index);
        self.taken.push(key);
        read(value).map(Some).map_err(|problem| {
            let error = ConfigError::new(format!("{:?}: {key}: {problem}", self.spec));
            error.about(Part::Value(key.to_owned()))
        })
    }

    /// Takes an option whose value is one of a few words.
    ///
    /// # Errors
    /// The value is none of the words.
    pub fn take_word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, ConfigError> {
        self.take(key, |value| {
            words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning).ok_or_else(|| {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                format!("{value:?} is not one of {}{}", known.join(", "), hint(value, &known))
            })
        })
    }

    /// Takes a number. The list of options has the allowed range.
    ///
    /// # Errors
    /// The value is no number, or is out of range.
    pub fn take_number(&mut self, key: &str) -> Result<Option<u64>, ConfigError> {
        let Some(option) = self.options.iter().copied().find(|option| option.key == key) else {
            return Ok(None);
        };
        self.take(key, |text| option.values.number(text))
    }

    /// Takes a secret, from the file or the environment variable that the SPEC names. A SPEC whose secret has changed
    /// counts as changed.
    ///
    /// # Errors
    /// Both are named, or what is named cannot be read.
    pub fn take_secret(&mut self, key: &str) -> Result<Option<Secret>, ConfigError> {
        let file = self.take(&format!("{key}_file"), |path| Secret::of_file(Path::new(path)))?;
        let variable = self.take(&format!("{key}_env"), |name| {
            if !is_name(name) {
                return Err("this is not the name of an environment variable".to_owned());
            }
            Secret::of_environment(name)
        })?;
        if file.is_some() && variable.is_some() {
            return Err(ConfigError::new(format!(
                "{:?}: {key}_file and {key}_env contradict each other; leave one of the two out",
                self.spec
            )));
        }
        let secret = file.or(variable);
        self.secrets.extend(secret.clone());
        Ok(secret)
    }

    /// Whether an option is there and not taken yet.
    pub fn is_written(&self, key: &str) -> bool {
        self.pairs.iter().any(|(known, _)| *known == key)
    }

    /// Whether an option was given and taken.
    pub fn was_given(&self, key: &str) -> bool {
        self.taken.contains(&key)
    }

    /// Refuses options that were not taken. Returns the secrets that were read.
    ///
    /// # Errors
    /// An option was not taken.
    pub fn finish(self) -> Result<Vec<Secret>, ConfigError> {
        match self.pairs.first() {
            Some((key, _)) => Err(unknown(&self.spec, key, &self.options)),
            None => Ok(self.secrets),
        }
    }
}

/// Checks the name of a listener or a sink.
///
/// # Errors
/// What to write.
pub fn checked_name(name: &str) -> Result<&str, String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "{name:?} is not a name; write 1 to {NAME_BYTES_MAX} bytes without control characters"
        ));
    }
    Ok(name)
}

/// Whether this can be the name of an environment variable.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn unknown(spec: &str, key: &str, options: &[&SpecOption]) -> ConfigError {
    let words: Vec<String> = options.iter().flat_map(|option| option.words()).collect();
    let known: Vec<&str> = words.iter().map(String::as_str).collect();
    ConfigError::new(format!(
        "{spec:?}: unknown option {key:?}{}; known options: {}{}",
        hint(key, &known),
        known.join(", "),
        question_mark_hint(spec)
    ))
    .about(Part::Key(key.to_owned()))
}

/// ` (did you mean ...?)` if a known word is similar, or nothing.
pub fn hint(word: &str, known: &[&str]) -> String {
    nearest(word, known).map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default()
}

/// The known word that was probably meant, if one is similar.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let score = |candidate: &str| strsim::jaro_winkler(word, candidate);
    let best = known.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) > 0.75).then_some(best)
}

/// Whether a value is a URL with a user, and perhaps a password.
pub fn has_user(value: &str) -> bool {
    let behind = value.split_once("://").map(|(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    behind.is_some_and(|authority| authority.contains('@'))
}
