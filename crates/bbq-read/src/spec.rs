//! What a reader is configured to be: `file:GLOB[?key=value&...]`.

use std::path::Path;
use std::time::Duration;

use bbq_spec::{ConfigError, NAME_OPTION, Query, SpecOption, SpecText, Values};
use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};

use crate::glob::Pattern;

/// Seconds without a new byte after which a file is closed.
const IDLE_CLOSE_SECONDS: u64 = 300;
/// A day: whatever is longer is never.
const SECONDS_MAX: u64 = 86_400;

/// The options of readers, beside the name.
pub static READ_OPTIONS: [SpecOption; 5] = [
    SpecOption {
        key: "start",
        values: Values::Words(&["beginning", "end"]),
        default: "beginning",
        meaning: "where reading begins in files that exist at the first start of the reader. Files that come later are read from their beginning",
    },
    SpecOption {
        key: "exclude",
        values: Values::Text { form: "GLOB", pattern: "." },
        default: "none",
        meaning: "files that are not read: a pattern of whole paths, or without a slash of file names",
    },
    SpecOption {
        key: "line_bytes_max",
        values: Values::Size(1..=MESSAGE_BYTES_MAX as u64),
        default: "1MiB",
        meaning: "the longest line; longer ones are dropped and counted (`oversize`)",
    },
    SpecOption {
        key: "incomplete_seconds",
        values: Values::NumberOrNever(1..=SECONDS_MAX),
        default: "0",
        meaning: "after this time without a new byte, a last line without a line feed is a message. Without it, the line is one when its file was \
                  renamed or deleted",
    },
    SpecOption {
        key: "idle_close_seconds",
        values: Values::Number(1..=SECONDS_MAX),
        default: "300",
        meaning: "after this time without a new byte, a file is closed. It is opened again when it grows",
    },
];

/// A checked SPEC of a reader.
#[derive(Clone, Debug)]
pub struct ReadSpec {
    /// The SPEC as it was configured.
    pub text: String,
    /// The reader's name in the ledger and the spool. Without the option `name`: the SPEC without options.
    pub source: String,
    /// Which files to read: an absolute pattern.
    pub glob: String,
    /// The longest line.
    pub line_bytes_max: usize,
    pub(crate) pattern: Pattern,
    pub(crate) starts_at_end: bool,
    pub(crate) incomplete: Option<Duration>,
    pub(crate) idle_close: Duration,
    exclude: Option<Exclude>,
}

/// A reader is changed if its SPEC is.
impl PartialEq for ReadSpec {
    fn eq(&self, other: &ReadSpec) -> bool {
        self.text == other.text && self.glob == other.glob
    }
}

impl Eq for ReadSpec {}

#[derive(Clone, Debug)]
enum Exclude {
    Name(globset::GlobMatcher),
    Path(Pattern),
}

impl ReadSpec {
    /// Reads a SPEC.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<ReadSpec, ConfigError> {
        ReadSpec::of(&SpecText::of_text(text)?)
    }

    /// Reads a SPEC that is already split. A relative pattern begins at the working directory.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn of(spec: &SpecText) -> Result<ReadSpec, ConfigError> {
        let SpecText { text, head, .. } = spec;
        let mut query = Query::of(spec, [&NAME_OPTION].into_iter().chain(&READ_OPTIONS))?;
        let shape = || {
            ConfigError::new(format!(
                "{text:?} is not a reader; write file:GLOB, for example file:/var/log/*.log"
            ))
        };
        let glob = head.strip_prefix("file:").filter(|glob| !glob.is_empty()).ok_or_else(shape)?;
        let wrong = |problem: String| ConfigError::new(format!("{text:?}: {problem}"));
        let glob = absolute(glob).map_err(wrong)?;
        let pattern = Pattern::of(&glob).map_err(wrong)?;
        let source = query.take_name(spec)?;
        let starts_at_end = query.take_word("start", &[("beginning", false), ("end", true)])?.unwrap_or(false);
        let seconds = |seconds: Option<u64>| seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let spec = ReadSpec {
            text: text.clone(),
            source,
            glob,
            line_bytes_max: query.take_number("line_bytes_max")?.unwrap_or(MESSAGE_BYTES_DEFAULT.into()) as usize,
            pattern,
            starts_at_end,
            incomplete: seconds(query.take_number("incomplete_seconds")?),
            idle_close: Duration::from_secs(query.take_number("idle_close_seconds")?.unwrap_or(IDLE_CLOSE_SECONDS)),
            exclude: query.take("exclude", Exclude::of)?,
        };
        query.finish()?;
        Ok(spec)
    }

    pub(crate) fn is_excluded(&self, path: &Path) -> bool {
        match &self.exclude {
            None => false,
            Some(Exclude::Name(glob)) => path.file_name().is_some_and(|name| glob.is_match(Path::new(name))),
            Some(Exclude::Path(pattern)) => pattern.is_match(path),
        }
    }
}

impl Exclude {
    fn of(text: &str) -> Result<Exclude, String> {
        if text.contains('/') {
            return Pattern::of(&absolute(text)?).map(Exclude::Path);
        }
        let glob = globset::GlobBuilder::new(text).build();
        glob.map(|glob| Exclude::Name(glob.compile_matcher()))
            .map_err(|error| format!("{text:?} is not a pattern: {}", error.kind()))
    }
}

/// The pattern with the working directory in front, unless it is absolute.
fn absolute(glob: &str) -> Result<String, String> {
    if glob.starts_with('/') {
        return Ok(glob.to_owned());
    }
    let here = std::env::current_dir().ok();
    let here = here.as_deref().and_then(Path::to_str).ok_or("the working directory has no usable name; write an absolute path")?;
    Ok(format!("{}/{glob}", globset::escape(here)))
}
