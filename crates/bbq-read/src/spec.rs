//! What a reader is configured to be: `file:GLOB[?key=value&...]`, `containers:[DIR][?key=value&...]` or `journal:[?key=value&...]`.

use std::path::Path;
use std::time::Duration;

use bbq_rules::{Place, Rules, rule_options};
use bbq_spec::{ConfigError, NAME_OPTION, Query, SpecOption, SpecText, Values, hint};
use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};

use crate::format::Format;
use crate::glob::Pattern;
use crate::journal::rules::{FIELDS, JOURNAL_KEYS, JournalRules};
use crate::multiline::{self, Multiline};

/// Where the kubelet has a link to the log of each container.
const CONTAINERS: &str = "/var/log/containers";
/// How container logs are laid out: links of the kubelet, files of docker, and /var/log/pods.
const LAYOUTS: [&str; 3] = ["*.log", "*/*-json.log", "*/*/*.log"];
/// In front of the options of a journal.
const JOURNAL: &str = "journal:";
/// The words of the option.
const FORMATS: [(&str, Format); 4] =
    [("plain", Format::Plain), ("cri", Format::Cri), ("docker", Format::Docker), ("auto", Format::Auto)];

/// Seconds without a new byte after which a file is closed.
const IDLE_CLOSE_SECONDS: u64 = 300;
/// A day: whatever is longer is never.
const SECONDS_MAX: u64 = 86_400;

/// The first options: those that files have.
const FILE_OPTIONS: usize = 7;

/// The options of readers, beside the name.
pub fn read_options() -> impl Iterator<Item = &'static SpecOption> {
    READ_OPTIONS.iter().chain(rule_options())
}

/// Those that only readers have.
static READ_OPTIONS: [SpecOption; FILE_OPTIONS + 8] = [
    SpecOption {
        key: "start",
        values: Values::Words(&["beginning", "end", "boot"]),
        default: "beginning",
        meaning: "where reading begins at the first start of the reader, in files that exist then, and in the journal. Files that come later \
                  are read from their beginning. `boot`: a journal's entries since the machine was started",
    },
    SpecOption {
        key: "exclude",
        values: Values::Text { form: "GLOB", pattern: "." },
        default: "none",
        meaning: "files that are not read: a pattern of whole paths, or without a slash of file names",
    },
    SpecOption {
        key: "format",
        values: Values::Words(&["plain", "cri", "docker", "auto"]),
        default: "plain, and auto for containers",
        meaning: "how a container runtime has written the lines; `auto` is what the first line of a file says",
    },
    SpecOption {
        key: "multiline",
        values: Values::Text {
            form: multiline::FORM,
            pattern: "^(java|python|go|ruby|dotnet|rust|start:.+|continue:.+)$",
        },
        default: "each line is a message",
        meaning: "which lines are one message: the stack traces of a language, or lines from one that matches `start` to the next, or a line \
                  and those behind it that match `continue`",
    },
    SpecOption {
        key: "line_bytes_max",
        values: Values::Size(1..=MESSAGE_BYTES_MAX as u64),
        default: "1MiB",
        meaning: "the longest line; longer ones are dropped and counted (`oversize`). Lines of a message that would be longer together are \
                  several messages. Also the longest message of a journal",
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
    SpecOption {
        key: "directory",
        values: Values::Text { form: "DIR", pattern: "^/" },
        default: "the journal of this machine",
        meaning: "of a journal: the directory of its files, as `journalctl --directory` has it, with the entries of all machines",
    },
    SpecOption {
        key: "namespace",
        values: Values::Text { form: "NAME", pattern: "." },
        default: "none",
        meaning: "of a journal: the namespace of journald, as `journalctl --namespace` has it",
    },
    SpecOption {
        key: "unit",
        values: Values::Text { form: "UNIT[,UNIT...]", pattern: "." },
        default: "all",
        meaning: "of a journal: only entries of these units, as `journalctl --unit` has them",
    },
    SpecOption {
        key: "identifier",
        values: Values::Text { form: "NAME[,NAME...]", pattern: "." },
        default: "all",
        meaning: "of a journal: only entries with these syslog identifiers, as `journalctl --identifier` has them",
    },
    SpecOption {
        key: "priority",
        values: Values::Text { form: "PRIORITY or FROM..TO", pattern: "^[a-z0-7]+([.][.][a-z0-7]+)?$" },
        default: "all",
        meaning: "of a journal: only entries of this priority and more important ones, or of a range, as `journalctl --priority` has them",
    },
    SpecOption {
        key: "matches",
        values: Values::Text { form: "FIELD=VALUE[,FIELD=VALUE...]", pattern: "^[A-Z_]" },
        default: "all",
        meaning: "of a journal: only entries with these fields. Several values of a field: any of them; several fields: all of them",
    },
    SpecOption {
        key: "fields",
        values: Values::Text { form: "FIELD[,FIELD...]", pattern: "^[A-Z_]" },
        default: FIELDS,
        meaning: "of a journal: the fields of an entry that a message keeps, at most 32. JSON output has them in `fields`, \
                  and severity, host, program and process as those of syslog",
    },
    SpecOption {
        key: "journalctl",
        values: Values::Text { form: "PATH", pattern: "^/" },
        default: "journalctl in PATH",
        meaning: "of a journal: the program that reads it",
    },
];

/// A checked SPEC of a reader.
#[derive(Clone, Debug)]
pub struct ReadSpec {
    /// The SPEC as it was configured.
    pub text: String,
    /// The reader's name in the ledger and the spool. Without the option `name`: the SPEC without options.
    pub source: String,
    /// Which files to read: an absolute pattern, or the directory of containers. What a journal is called, in messages.
    pub glob: String,
    /// The longest line.
    pub line_bytes_max: usize,
    /// Which messages are kept, and what is replaced in them; `None` if all are kept as they are.
    pub filter: Option<Rules>,
    /// Of a journal.
    pub(crate) journal: Option<JournalRules>,
    pub(crate) is_containers: bool,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) format: Format,
    pub(crate) multiline: Option<Multiline>,
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
        if head.starts_with(JOURNAL) {
            return ReadSpec::of_journal(spec);
        }
        let options = READ_OPTIONS[..FILE_OPTIONS].iter().chain(rule_options());
        let mut query = Query::of(spec, [&NAME_OPTION].into_iter().chain(options))?;
        let wrong = |problem: String| ConfigError::new(format!("{text:?}: {problem}"));
        let (is_containers, globs) = globs(head).map_err(wrong)?;
        let patterns = globs.iter().map(|glob| Pattern::of(glob)).collect::<Result<_, _>>().map_err(wrong)?;
        let glob = globs.into_iter().next().unwrap_or_default();
        let source = query.take_name(spec)?;
        let starts_at_end =
            query.take_word("start", &[("beginning", false), ("end", true)])?.unwrap_or(false);
        let default_format = if is_containers { Format::Auto } else { Format::Plain };
        let seconds = |seconds: Option<u64>| seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let spec = ReadSpec {
            text: text.clone(),
            source,
            glob,
            line_bytes_max: query.take_number("line_bytes_max")?.unwrap_or(MESSAGE_BYTES_DEFAULT.into())
                as usize,
            filter: Rules::take(&mut query, Place::Reader)?,
            journal: None,
            is_containers,
            patterns,
            format: query.take_word("format", &FORMATS)?.unwrap_or(default_format),
            multiline: query.take("multiline", Multiline::of)?,
            starts_at_end,
            incomplete: seconds(query.take_number("incomplete_seconds")?),
            idle_close: Duration::from_secs(
                query.take_number("idle_close_seconds")?.unwrap_or(IDLE_CLOSE_SECONDS),
            ),
            exclude: query.take("exclude", Exclude::of)?,
        };
        query.finish()?;
        Ok(spec)
    }

    fn of_journal(spec: &SpecText) -> Result<ReadSpec, ConfigError> {
        let SpecText { text, head, .. } = spec;
        let options =
            READ_OPTIONS.iter().filter(|option| JOURNAL_KEYS.contains(&option.key)).chain(rule_options());
        let mut query = Query::of(spec, [&NAME_OPTION].into_iter().chain(options))?;
        if head != JOURNAL {
            let problem = "nothing stands behind journal: but options; write journal:?directory=DIR";
            return Err(ConfigError::new(format!("{text:?}: {problem}")));
        }
        let source = query.take_name(spec)?;
        let line_bytes_max =
            query.take_number("line_bytes_max")?.unwrap_or(MESSAGE_BYTES_DEFAULT.into()) as usize;
        let rules = JournalRules::of(&mut query, text)?;
        let filter = Rules::take(&mut query, Place::Reader)?;
        query.finish()?;
        Ok(ReadSpec {
            text: text.clone(),
            source,
            glob: rules.shown(),
            line_bytes_max,
            filter,
            journal: Some(rules),
            is_containers: false,
            patterns: Vec::new(),
            format: Format::Plain,
            multiline: None,
            starts_at_end: false,
            incomplete: None,
            idle_close: Duration::from_secs(IDLE_CLOSE_SECONDS),
            exclude: None,
        })
    }

    /// Whether it reads a journal.
    #[must_use]
    pub fn is_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Whether a file with this path is to be read.
    pub(crate) fn wants(&self, path: &Path) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(path)) && !self.is_excluded(path)
    }

    pub(crate) fn is_excluded(&self, path: &Path) -> bool {
        match &self.exclude {
            None => false,
            Some(Exclude::Name(glob)) => path.file_name().is_some_and(|name| glob.is_match(Path::new(name))),
            Some(Exclude::Path(pattern)) => pattern.is_match(path),
        }
    }
}

/// The patterns of a SPEC without its options, and whether they are those of containers.
fn globs(head: &str) -> Result<(bool, Vec<String>), String> {
    if let Some(directory) = head.strip_prefix("containers:") {
        let directory = if directory.is_empty() { CONTAINERS } else { directory };
        let directory = absolute(directory)?;
        let directory = directory.trim_end_matches('/');
        return Ok((true, LAYOUTS.map(|layout| format!("{directory}/{layout}")).into()));
    }
    match head.strip_prefix("file:") {
        Some(glob) if !glob.is_empty() => Ok((false, vec![absolute(glob)?])),
        Some(_) => Err("the files are missing; write file:GLOB, for example file:/var/log/*.log".to_owned()),
        None => {
            let word = head.split(':').next().unwrap_or_default();
            let meant = hint(word, &["file", "containers", "journal"]);
            Err(format!(
                "this is not a reader{meant}; write file:GLOB, for example file:/var/log/*.log, containers: or journal:"
            ))
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
    let here = here
        .as_deref()
        .and_then(Path::to_str)
        .ok_or("the working directory has no usable name; write an absolute path")?;
    Ok(format!("{}/{glob}", globset::escape(here)))
}
