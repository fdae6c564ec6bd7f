//! `bbq init --agent`: the configuration of a bbq on a host, which reads what programs write there, and passes it on to a central bbq.

use std::fmt::Write as _;
use std::path::Path;

use bbq_server::KINDS;
use bbq_server::config::ReadSpec;

use super::ask::{Asker, Question, quoted, words};

/// What an agent can read.
const SOURCES: [&str; 3] = ["journal", "files", "containers"];
/// The directory of the service, where it exists.
const SERVICE_DATA: &str = "/var/lib/bbq";
/// The words for nothing of its own.
const SYSTEM: &str = "system";
const NONE: &str = "none";

/// What the answers say.
pub(super) struct Agent {
    sources: Vec<&'static str>,
    /// Patterns of files.
    files: Vec<String>,
    centre: Centre,
    data: String,
    spool: String,
}

/// The central server, as a sink.
#[derive(Clone)]
struct Centre {
    spec: String,
    ca: Option<String>,
    token: Option<String>,
}

impl Agent {
    /// Asks until each answer is right, if somebody can answer again.
    pub(super) fn ask(asker: &mut Asker<'_>) -> anyhow::Result<Agent> {
        let question = Question {
            text: "What does it read? journal (of systemd), files, containers (of Kubernetes or docker); several with commas",
            default: "journal,files",
        };
        let sources = asker.ask(&question, &|answer| words(answer, SOURCES).map(drop))?;
        let sources = words(&sources, SOURCES).unwrap_or_default();
        let mut files = Vec::new();
        if sources.contains(&"files") {
            let question = Question {
                text: "Which files? patterns of absolute paths, several with blanks between them",
                default: "/var/log/*.log* /var/log/*/*.log*",
            };
            let answer = asker.ask(&question, &|answer| patterns(answer).map(drop))?;
            files = patterns(&answer).unwrap_or_default();
        }
        let centre = Centre::ask(asker)?;
        let default = if Path::new(SERVICE_DATA).is_dir() { SERVICE_DATA } else { "bbq-data" };
        let question = Question {
            text: "Where are the positions in files, and the messages that wait for the central bbq? a directory",
            default,
        };
        let data = asker.ask(&question, &|_| Ok(()))?;
        let spool = asker.ask_spool()?;
        Ok(Agent { sources, files, centre, data, spool })
    }

    /// The configuration.
    pub(super) fn file(&self) -> String {
        let Agent { sources, files, centre, data, spool } = self;
        let (data, spool) = (quoted(data), quoted(spool));
        let mut text = format!(
            "# Configuration of an agent, written by `bbq init --agent`: a bbq that reads what programs write on this host, and passes it on.\n\
             # `bbq config default` shows every key, `bbq config explain KEY` explains one.\n\
             # After a change: `bbq check FILE`, and `bbq reload` to apply it to a running server.\n\n\
             # The positions in files, and the messages that the central bbq does not have yet.\n\
             data = {data}\n\n\
             # For programs of this host that send, for example: \"syslog+udp://127.0.0.1:5514\", \"bbq+tcp://127.0.0.1:7700\".\n\
             listen = []\n\n\
             # The page, `bbq status`, `bbq top` and /metrics. Other machines need a token: admin_token_file.\n\
             admin = \"127.0.0.1:7790\"\n\n\
             # A stop waits so long for the central bbq. What is left then is sent after the next start.\n\
             drain_timeout_seconds = 20\n\n\
             # What is read: each line and each entry once. Readers can leave messages out, and replace secrets before they are on disk\n\
             # (docs/FILTERS.md). Where somebody else may read the logs only as a member of a group, the user of this server must be one\n\
             # (docs/READERS.md).\n"
        );
        if sources.contains(&"journal") {
            text.push_str(JOURNAL);
        }
        for (index, pattern) in files.iter().enumerate() {
            let name = if index == 0 { "files".to_owned() } else { format!("files-{}", index + 1) };
            // Writing to a String cannot fail.
            let _infallible = write!(
                text,
                "\n[[read]]\nspec = {}\nname = \"{name}\"\n",
                quoted(&format!("file:{pattern}"))
            );
            text.push_str(if index == 0 { FILES } else { "" });
        }
        if sources.contains(&"containers") {
            text.push_str(CONTAINERS);
        }
        text.push_str(&centre.table());
        let _infallible = write!(
            text,
            "\n[spool]\n\
             # At this limit readers wait, and what they have not read stays in its files.\n\
             bytes_max = {spool}\n"
        );
        text
    }
}

/// Each commented key is one that the reader has.
const JOURNAL: &str = "\n[[read]]\nspec = \"journal:\"\nname = \"journal\"\n\
    # At the first start, only what was written since the machine was started:\n\
    # start = \"boot\"\n\
    # Without debug messages:\n\
    # where = 'severity <= 6'\n";
const FILES: &str = "# At the first start, only what is written from then on:\n\
    # start = \"end\"\n\
    # What a syslog daemon writes is in the journal, too:\n\
    # exclude = \"{auth,kern,user}.log*\"\n\
    # The lines of a stack trace are one message:\n\
    # multiline = \"java\"\n\
    # redact = 's/password=\\S+/password=***/'\n";
const CONTAINERS: &str = "\n[[read]]\nspec = \"containers:\"\nname = \"containers\"\n\
    # Names for the fields of messages that are JSON, and a condition with them:\n\
    # parse = \"json\"\n\
    # where = 'fields.namespace != \"kube-system\" && (!has(parsed.level) || parsed.level != \"debug\")'\n";

impl Centre {
    fn ask(asker: &mut Asker<'_>) -> anyhow::Result<Centre> {
        let question = Question {
            text: "Where is the central bbq? bbq+tls://HOST:PORT (over TLS), or bbq://HOST:PORT on a network that you trust",
            default: "bbq://127.0.0.1:7700",
        };
        let spec = asker.ask(&question, &|answer| {
            if !answer.starts_with("bbq://") && !answer.starts_with("bbq+tls://") {
                return Err("answer bbq+tls://HOST:PORT or bbq://HOST:PORT".to_owned());
            }
            Centre { spec: answer.to_owned(), ca: None, token: None }.check()
        })?;
        let mut centre = Centre { spec, ca: None, token: None };
        let or = |answer: &str, nothing: &str| Some(answer.to_owned()).filter(|answer| answer != nothing);
        if centre.spec.starts_with("bbq+tls:") {
            let question = Question {
                text: "Which file has the CA certificate of the central bbq? system: those of this system",
                default: SYSTEM,
            };
            let ca = asker
                .ask(&question, &|answer| Centre { ca: or(answer, SYSTEM), ..centre.clone() }.check())?;
            centre.ca = or(&ca, SYSTEM);
        }
        let question = Question {
            text: "Which file has the token for the central bbq? none: it asks for none",
            default: NONE,
        };
        let token =
            asker.ask(&question, &|answer| Centre { token: or(answer, NONE), ..centre.clone() }.check())?;
        centre.token = or(&token, NONE);
        Ok(centre)
    }

    /// What the server says of the sink.
    fn check(&self) -> Result<(), String> {
        let options: Vec<String> = self.options().map(|(key, value)| format!("{key}={value}")).collect();
        let text = [self.spec.clone(), options.join("&")].join("?");
        KINDS.parse(text.trim_end_matches('?')).map(drop).map_err(|why| why.to_string())
    }

    fn options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let options = [("tls_ca", &self.ca), ("token_file", &self.token)];
        options.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?)))
    }

    fn table(&self) -> String {
        let mut text = format!(
            "\n# The central bbq gets each message once. While it is away, messages wait in the data directory.\n\
             [[sink]]\nspec = {}\nname = \"centre\"\n",
            quoted(&self.spec)
        );
        for (key, value) in self.options() {
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "{key} = {}", quoted(value));
        }
        text
    }
}

/// Patterns of absolute paths.
fn patterns(answer: &str) -> Result<Vec<String>, String> {
    answer
        .split_whitespace()
        .map(|pattern| {
            if !pattern.starts_with('/') {
                return Err(format!("{pattern:?} is not an absolute path, such as /var/log/*.log*"));
            }
            let spec = ReadSpec::parse(&format!("file:{pattern}")).map_err(|why| why.to_string())?;
            Ok(spec.glob)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io;

    use bbq_server::config::Environment;
    use bbq_server::{Config, ConfigSource, Overrides};

    use super::*;

    fn agent(answers: &str) -> anyhow::Result<Agent> {
        let input = &mut answers.as_bytes();
        Agent::ask(&mut Asker { input, out: &mut io::sink(), is_terminal: false })
    }

    fn load(text: &str) -> Config {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bbq.toml");
        std::fs::write(&path, text).unwrap();
        let (environment, overrides) = (Environment::default(), Overrides::default());
        let source = ConfigSource { path: Some(path), environment, overrides };
        source.load(&KINDS).unwrap_or_else(|why| panic!("{why}\n{text}"))
    }

    #[test]
    fn a_file_has_what_was_answered() {
        let text = agent(
            "journal, files,containers\n/a/*.log /b/**/*.log\nbbq+tls://logs.example\n\n\n/data\n3GiB\n",
        )
        .unwrap()
        .file();
        let config = load(&text);
        let read: Vec<&str> = config.read.iter().map(|spec| spec.source.as_str()).collect();
        assert_eq!(read, ["journal", "files", "files-2", "containers"]);
        assert!(config.listen.is_empty() && config.data == Path::new("/data"));
        assert_eq!(config.sinks.len(), 1);
        assert!(text.contains("spec = \"bbq+tls://logs.example\"") && text.contains("bytes_max = \"3GiB\""));
        assert!(!text.contains("\ntoken_file") && !text.contains("tls_ca"), "{text}");
        let text = agent("containers\n\n\n\n\n").unwrap().file();
        let config = load(&text);
        assert!(config.read.len() == 1 && config.read[0].source == "containers", "{text}");
    }

    #[test]
    fn what_is_in_comments_can_be_used() {
        let text = agent("journal,files,containers\n").unwrap().file();
        let is_key = |line: &str| {
            line.strip_prefix("# ").is_some_and(|rest| {
                rest.split_once(" = ")
                    .is_some_and(|(key, _)| key.chars().all(|letter| letter.is_ascii_lowercase()))
            })
        };
        let used: Vec<&str> = text.lines().map(|line| if is_key(line) { &line[2..] } else { line }).collect();
        assert_eq!(text.lines().filter(|line| is_key(line)).count(), 8, "{text}");
        let config = load(&used.join("\n"));
        assert!(config.read.iter().filter(|spec| spec.filter.is_some()).count() == 3, "{used:?}");
    }

    #[test]
    fn an_answer_is_checked_where_it_is_given() {
        for (answers, words) in [
            ("journal,syslog\n", "there is no \"syslog\"; there is journal, files, containers"),
            ("files\nlogs/*.log\n", "\"logs/*.log\" is not an absolute path"),
            ("journal\nlogs.example:7700\n", "answer bbq+tls://HOST:PORT"),
            ("journal\nbbq://host:port\n", "port"),
            ("journal\nbbq+tls://host\n/nowhere/ca.pem\n", "/nowhere/ca.pem"),
            ("journal\nbbq://host\n/nowhere/token\n", "/nowhere/token"),
            ("journal\n\n\n\n1 byte\n", "1 byte"),
        ] {
            let why = agent(answers).map(|_| ()).unwrap_err().to_string();
            assert!(why.contains(words), "{answers:?}: {why}");
        }
    }
}
