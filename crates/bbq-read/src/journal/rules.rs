//! Which entries of which journal a reader reads, and how journalctl is told.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_spec::{ConfigError, Query};
use bbq_wire::limits::{FIELD_NAME_BYTES_MAX, FIELDS_MAX};

/// The options of readers that a journal has.
pub(crate) const JOURNAL_KEYS: [&str; 10] = [
    "start",
    "line_bytes_max",
    "directory",
    "namespace",
    "unit",
    "identifier",
    "priority",
    "matches",
    "fields",
    "journalctl",
];
/// What tells where an entry is from and what it is about, by default.
pub(crate) const FIELDS: &str =
    "PRIORITY,SYSLOG_FACILITY,SYSLOG_IDENTIFIER,_COMM,_HOSTNAME,_PID,_SYSTEMD_UNIT,_TRANSPORT,_UID";

/// Units, identifiers or matches of a reader: a command line has room for more, and nobody lists more.
const LIST_MAX: usize = 256;
/// The words for priorities, by number.
const PRIORITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
/// Where journald keeps the journals of all machines, on disk and in memory.
const ROOTS: [&str; 2] = ["/var/log/journal", "/run/log/journal"];
/// The id of this machine.
const MACHINE_ID: &str = "/etc/machine-id";

/// The names of the fields that messages get by default.
#[must_use]
pub fn default_fields() -> Arc<[String]> {
    FIELDS.split(',').map(str::to_owned).collect()
}

/// Where the first start begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Beginning,
    End,
    Boot,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct JournalRules {
    /// The program, or its name in PATH.
    pub(crate) program: PathBuf,
    /// Instead of the journal of this machine.
    pub(crate) directory: Option<PathBuf>,
    namespace: Option<String>,
    /// Arguments that choose entries.
    chosen: Vec<String>,
    /// The names of the fields that messages get.
    pub(crate) fields: Arc<[String]>,
    pub(crate) start: Start,
}

impl JournalRules {
    /// Takes the options of a journal.
    ///
    /// # Errors
    /// Says which one is wrong, and what is allowed.
    pub(crate) fn of(query: &mut Query<'_>, spec: &str) -> Result<JournalRules, ConfigError> {
        let start = query.take_word(
            "start",
            &[("beginning", Start::Beginning), ("end", Start::End), ("boot", Start::Boot)],
        )?;
        let directory = query.take("directory", absolute)?;
        let namespace = query.take("namespace", |text| plain(text).map(|()| text.to_owned()))?;
        if directory.is_some() && namespace.is_some() {
            return Err(ConfigError::new(format!(
                "{spec:?}: namespace and directory contradict each other; leave one of them out"
            )));
        }
        let mut chosen = Vec::new();
        for key in ["unit", "identifier"] {
            let values = query.take(key, |text| list(text, plain))?.unwrap_or_default();
            chosen.extend(values.into_iter().map(|value| format!("--{key}={value}")));
        }
        chosen.extend(query.take("priority", priority)?.map(|range| format!("--priority={range}")));
        chosen.extend(query.take("matches", |text| list(text, field_match))?.unwrap_or_default());
        let fields = query.take("fields", fields)?;
        Ok(JournalRules {
            program: query.take("journalctl", absolute)?.unwrap_or_else(|| PathBuf::from("journalctl")),
            directory,
            namespace,
            chosen,
            fields: fields.unwrap_or_else(default_fields),
            start: start.unwrap_or(Start::Beginning),
        })
    }

    /// The arguments of journalctl, which begins at this cursor; an empty one is the first entry.
    pub(crate) fn arguments(&self, cursor: &str) -> Vec<String> {
        // Without `--merge`, `--follow` shows one boot alone. `--quiet` keeps notes out of the output.
        let mut arguments =
            ["--output=export", "--follow", "--no-tail", "--merge", "--all", "--quiet", "--no-pager"]
                .map(str::to_owned)
                .to_vec();
        arguments.push(format!("--output-fields=MESSAGE,_MACHINE_ID,{}", self.fields.join(",")));
        arguments
            .extend(self.directory.as_ref().map(|directory| format!("--directory={}", directory.display())));
        arguments.extend(self.namespace.as_ref().map(|namespace| format!("--namespace={namespace}")));
        if !cursor.is_empty() {
            arguments.push(format!("--cursor={cursor}"));
        }
        arguments.extend(self.chosen.iter().cloned());
        arguments
    }

    /// Whether journalctl is told to leave out entries.
    pub(crate) fn is_choosy(&self) -> bool {
        !self.chosen.is_empty()
    }

    /// The directories of the journal.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        if let Some(directory) = &self.directory {
            return vec![directory.clone()];
        }
        let Some(machine) = machine_id() else { return Vec::new() };
        let namespace = self.namespace.as_ref().map(|name| format!(".{name}")).unwrap_or_default();
        ROOTS.map(|root| Path::new(root).join(format!("{machine}{namespace}"))).into()
    }

    /// The machine whose entries are read: with `--merge`, journalctl shows those of all machines. `None` for all machines.
    pub(crate) fn machine(&self) -> Option<String> {
        if self.directory.is_some() { None } else { machine_id() }
    }

    /// What the journal is called in messages.
    pub(crate) fn shown(&self) -> String {
        match (&self.directory, &self.namespace) {
            (Some(directory), _) => directory.display().to_string(),
            (None, Some(namespace)) => format!("the journal namespace {namespace}"),
            (None, None) => "the journal of this machine".to_owned(),
        }
    }

    /// The program, as a path; `None` if there is none.
    pub(crate) fn find_program(&self) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        if self.program.is_absolute() {
            return Some(self.program.clone()).filter(is_program);
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join(&self.program)).find(is_program)
    }
}

fn machine_id() -> Option<String> {
    let text = std::fs::read_to_string(MACHINE_ID).ok()?;
    let id = text.trim();
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

fn list(text: &str, check: impl Fn(&str) -> Result<(), String>) -> Result<Vec<String>, String> {
    text.split(',').try_for_each(check)?;
    let values: Vec<String> = text.split(',').map(str::to_owned).collect();
    if values.len() > LIST_MAX {
        Err(format!("{} values; allowed: at most {LIST_MAX}", values.len()))
    } else {
        Ok(values)
    }
}

/// A text that is an argument of its own.
fn plain(text: &str) -> Result<(), String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!(
            "{text:?} is empty or has control characters; write names with commas between them"
        ));
    }
    Ok(())
}

fn field_match(text: &str) -> Result<(), String> {
    let form = || format!("{text:?} is not FIELD=VALUE, such as _TRANSPORT=kernel");
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    if !is_field_name(name) || value.chars().any(char::is_control) {
        return Err(form());
    }
    Ok(())
}

/// A priority, by word or number, or a range of them.
fn priority(text: &str) -> Result<String, String> {
    let is_priority = |word: &str| PRIORITIES.contains(&word) || matches!(word.as_bytes(), [b'0'..=b'7']);
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    if is_priority(first) && is_priority(last) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a priority; write 0 to 7, one of {}, or FROM..TO", PRIORITIES.join(", ")))
}

fn fields(text: &str) -> Result<Arc<[String]>, String> {
    let names = list(text, |name| if is_field_name(name) { Ok(()) } else { Err(no_field_name(name)) })?;
    if names.len() > FIELDS_MAX {
        return Err(format!("{} fields; allowed: at most {FIELDS_MAX}", names.len()));
    }
    Ok(names.into())
}

fn no_field_name(name: &str) -> String {
    format!(
        "{name:?} is not the name of a field; write capital letters, digits and _, with commas between names"
    )
}

/// As journald takes them. Two underscores stand in front of what is no field.
fn is_field_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty()
        && name.len() <= FIELD_NAME_BYTES_MAX
        && name.bytes().all(is_letter)
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("__")
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    if text.starts_with('/') {
        return Ok(PathBuf::from(text));
    }
    Err(format!("{text:?} is not an absolute path"))
}

#[cfg(test)]
mod tests {
    use crate::ReadSpec;

    fn arguments(options: &str) -> Result<String, String> {
        let spec = ReadSpec::parse(&format!("journal:?{options}")).map_err(|error| error.to_string())?;
        Ok(spec.journal.map(|rules| rules.arguments("t=1").join(" ")).unwrap_or_default())
    }

    #[test]
    fn journalctl_is_told_what_to_show() {
        let told = arguments(
            "unit=a.service,b.service&identifier=sshd&priority=0..err&matches=_UID=0,_TRANSPORT=kernel&fields=_PID&directory=/d",
        );
        let expected = "--output=export --follow --no-tail --merge --all --quiet --no-pager --output-fields=MESSAGE,_MACHINE_ID,_PID \
                        --directory=/d --cursor=t=1 --unit=a.service --unit=b.service --identifier=sshd --priority=0..err _UID=0 \
                        _TRANSPORT=kernel";
        assert_eq!(told.as_deref(), Ok(expected));
    }

    #[test]
    fn what_journalctl_would_not_take_is_refused() {
        for (options, says) in [
            ("unit=", "names with commas"),
            ("unit=a,", "names with commas"),
            ("unit=a%0ab\n", "control characters"),
            ("priority=8", "0 to 7"),
            ("priority=0..x", "0 to 7"),
            ("matches=--file=/x", "FIELD=VALUE"),
            ("matches=a", "FIELD=VALUE"),
            ("matches=+", "FIELD=VALUE"),
            ("fields=message", "capital letters"),
            ("fields=__CURSOR", "capital letters"),
            ("directory=d", "absolute"),
            ("directory=/d&namespace=n", "contradict"),
            ("journalctl=j", "absolute"),
            ("start=now", "boot"),
            ("multiline=java", "unknown option"),
        ] {
            let error = arguments(options).unwrap_err();
            assert!(error.contains(says), "{options}: {error}");
        }
        let many =
            format!("fields={}", (0..33).map(|field| format!("F{field}")).collect::<Vec<_>>().join(","));
        assert!(arguments(&many).unwrap_err().contains("at most 32"));
        assert!(ReadSpec::parse("journal:/var/log/journal").unwrap_err().to_string().contains("directory="));
        assert!(ReadSpec::parse("file:/x?unit=a").unwrap_err().to_string().contains("unknown option"));
    }
}
