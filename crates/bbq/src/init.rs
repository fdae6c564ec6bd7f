//! `bbq init`: asks four questions, and writes a configuration with comments.
//!
//! Each answer is checked at once by what the server checks it with. At the end the whole file is, before anybody sees it.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, IsTerminal as _, Write};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use bbq_server::config::{Environment, FILE_KEYS, Values};
use bbq_server::{ConfigSource, KINDS, Overrides};

use crate::arguments::InitArguments;
use crate::outcome::{Outcome, misuse};

/// Where each kind of sender is listened to, without the host.
const LISTENERS: [(&str, &[&str]); 4] = [
    ("syslog", &["syslog+udp://HOST:5514", "syslog+tcp://HOST:5514"]),
    ("lines", &["lines+tcp://HOST:7701"]),
    ("http", &["http+tcp://HOST:7780"]),
    ("bbq", &["bbq+tcp://HOST:7700"]),
];
const SPOOL_KEY: &str = "spool.bytes_max";

/// What the answers say.
struct Answers {
    senders: Vec<&'static str>,
    host: &'static str,
    sink: String,
    spool: String,
}

/// A question.
struct Question<'a> {
    text: &'a str,
    default: &'a str,
}

pub(crate) fn run(arguments: &InitArguments) -> anyhow::Result<Outcome> {
    let path = &arguments.file;
    if path.exists() {
        return Err(misuse(anyhow!(
            "{} already exists; give another FILE, or remove it first",
            path.display()
        )));
    }
    let answers = if arguments.yes {
        ask_all(&mut io::empty(), &mut io::sink(), false)
    } else {
        ask_all(&mut io::stdin().lock(), &mut io::stderr(), io::stdin().is_terminal())
    }?;
    write_checked(path, &answers.file())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} is written. Start the server, and send a first message:", path.display())?;
    writeln!(out, "  bbq serve --config {}", path.display())?;
    writeln!(out, "  {}", answers.first_message())?;
    Ok(Outcome::Done)
}

/// Asks until each answer is right, if somebody can answer again.
fn ask_all(input: &mut dyn BufRead, out: &mut dyn Write, is_terminal: bool) -> anyhow::Result<Answers> {
    let mut ask = |question: &Question<'_>, check: &dyn Fn(&str) -> Result<(), String>| loop {
        write!(out, "{}\n  [{}] ", question.text, question.default)?;
        out.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 && is_terminal {
            return Err(misuse(anyhow!("nothing is written, because the questions were not answered")));
        }
        if !is_terminal {
            writeln!(out)?;
        }
        let answer = if line.trim().is_empty() { question.default } else { line.trim() };
        match check(answer) {
            Ok(()) => return Ok(answer.to_owned()),
            Err(why) if is_terminal => writeln!(out, "  {why}")?,
            Err(why) => return Err(misuse(anyhow!("{answer:?}: {why}"))),
        }
    };
    let words = LISTENERS.map(|(word, _)| word);
    let question = Question {
        text: "Who sends? syslog, lines (text over TCP), http (also OpenTelemetry), bbq (its libraries, bbq send); several with commas",
        default: "syslog,lines,http,bbq",
    };
    let senders = ask(&question, &|answer| senders(answer).map(drop))?;
    let question = Question {
        text: "Who may send? local: programs on this machine; all: everybody who can reach it",
        default: "local",
    };
    let reach = ask(&question, &|answer| match answer {
        "local" | "all" => Ok(()),
        _ => Err("answer local or all".to_owned()),
    })?;
    let question = Question {
        text: "Where do messages go? file:PATH, http://HOST/PATH, nats:..., kafka:..., s3:..., bbq://HOST (bbq serve --help lists all)",
        default: "file:bbq-data/out/messages.log",
    };
    let sink = ask(&question, &|answer| KINDS.parse(answer).map(drop).map_err(|why| why.to_string()))?;
    let (values, default) = spool_key();
    let question = Question {
        text: "How much disk space may messages take while they wait for delivery?",
        default: &default,
    };
    let spool = ask(&question, &|answer| values.number(answer).map(drop))?;
    let senders = self::senders(&senders).unwrap_or_else(|_| words.to_vec());
    Ok(Answers { senders, host: if reach == "all" { "0.0.0.0" } else { "127.0.0.1" }, sink, spool })
}

fn senders(answer: &str) -> Result<Vec<&'static str>, String> {
    let words = LISTENERS.map(|(word, _)| word);
    let known = |given: &str| words.into_iter().find(|word| *word == given);
    let given = answer.split(',').map(str::trim);
    given
        .map(|given| {
            known(given).ok_or_else(|| format!("there is no {given:?}; there is {}", words.join(", ")))
        })
        .collect()
}

/// What the key of the spool's size takes, and its default.
fn spool_key() -> (Values, String) {
    let key = FILE_KEYS.iter().find(|key| key.option.key == SPOOL_KEY);
    key.map_or((Values::Size(1..=u64::MAX), String::new()), |key| {
        (key.option.values.clone(), key.option.default.to_owned())
    })
}

impl Answers {
    fn listeners(&self) -> impl Iterator<Item = String> {
        let chosen = LISTENERS.iter().filter(|(word, _)| self.senders.contains(word));
        chosen.flat_map(|(_, specs)| *specs).map(|spec| spec.replace("HOST", self.host))
    }

    fn file(&self) -> String {
        let mut text = String::from(
            "# Configuration of `bbq serve`, written by `bbq init`. `bbq config default` shows every key, `bbq config explain KEY` explains one.\n\
             # After a change: `bbq check FILE`, and `bbq reload` to apply it to a running server.\n\n\
             # What to listen on.\n",
        );
        if self.host != "127.0.0.1" {
            text.push_str(
                "# Everybody who reaches this machine may send: docs/TOKENS.md and docs/TLS.md show how to ask for permission.\n",
            );
        }
        text.push_str("listen = [\n");
        for listener in self.listeners() {
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "    {},", quoted(&listener));
        }
        let (sink, spool) = (quoted(&self.sink), quoted(&self.spool));
        let _infallible = write!(
            text,
            "]\n\n\
             # Where to deliver messages. Each sink gets all of them, at its own pace.\n\
             sink = [{sink}]\n\n\
             # Acknowledged messages stay here until every sink has them.\n\
             data = \"bbq-data\"\n\n\
             # The page, `bbq status`, `bbq top` and /metrics. Other machines need a token: admin_token_file.\n\
             admin = \"127.0.0.1:7790\"\n\n\
             [spool]\n\
             # At this limit senders wait until the sinks have taken messages.\n\
             bytes_max = {spool}\n"
        );
        text
    }

    fn first_message(&self) -> &'static str {
        match self.senders.first() {
            Some(&"syslog") => "logger --server 127.0.0.1 --udp --port 5514 hello",
            Some(&"http") => "curl -d hello http://127.0.0.1:7780/",
            Some(&"lines") => "echo hello > /dev/tcp/127.0.0.1/7701",
            _ => "echo hello | bbq send",
        }
    }
}

/// A string of TOML, which is one of JSON, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes the file if the server would take it.
fn write_checked(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).with_context(cannot)?;
    let written = file.write_all(text.as_bytes()).with_context(cannot);
    written.and_then(|()| check(path)).inspect_err(|_| {
        // Nobody has seen it.
        let _left_behind = fs::remove_file(path);
    })
}

fn check(path: &Path) -> anyhow::Result<()> {
    let source = ConfigSource {
        path: Some(path.to_owned()),
        environment: Environment::default(),
        overrides: Overrides::default(),
    };
    source.load(&KINDS).map(drop).map_err(misuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(text: &str) -> anyhow::Result<Answers> {
        ask_all(&mut text.as_bytes(), &mut io::sink(), false)
    }

    #[test]
    fn an_answer_is_checked_where_it_is_given() {
        for (text, words) in [
            ("sylog\n", "there is no \"sylog\"; there is syslog, lines, http, bbq"),
            ("\nnobody\n", "local or all"),
            ("\n\nelasticsearch://host\n", "preset=elasticsearch"),
            ("\n\n\n1 byte\n", "1 byte"),
        ] {
            let why = answers(text).map(|_| ()).unwrap_err().to_string();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_file_has_what_was_answered() {
        let text = answers("lines, http\nall\nnull:\n5GiB\n").unwrap().file();
        for line in [
            "\"lines+tcp://0.0.0.0:7701\",",
            "\"http+tcp://0.0.0.0:7780\",",
            "sink = [\"null:\"]",
            "bytes_max = \"5GiB\"",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("syslog+") && text.contains("docs/TOKENS.md"), "{text}");
        let text = answers("").unwrap().file();
        assert!(text.contains("\"syslog+udp://127.0.0.1:5514\",") && !text.contains("TOKENS"), "{text}");
    }
}
