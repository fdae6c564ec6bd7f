//! `bbq init`: asks a few questions, and writes a configuration with comments: of a server that others send to, or of an agent.
//!
//! Each answer is checked at once by what the server checks it with. At the end the whole file is, before anybody sees it.

mod agent;
mod ask;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use bbq_server::config::Environment;
use bbq_server::{ConfigSource, KINDS, Overrides};

use crate::arguments::InitArguments;
use crate::outcome::{Outcome, misuse};
use agent::Agent;
use ask::{Asker, Question, quoted};

/// Where each kind of sender is listened to, without the host.
const LISTENERS: [(&str, &[&str]); 4] = [
    ("syslog", &["syslog+udp://HOST:5514", "syslog+tcp://HOST:5514"]),
    ("lines", &["lines+tcp://HOST:7701"]),
    ("http", &["http+tcp://HOST:7780"]),
    ("bbq", &["bbq+tcp://HOST:7700"]),
];

/// What the answers say.
struct Answers {
    senders: Vec<&'static str>,
    host: &'static str,
    sink: String,
    spool: String,
}

pub(crate) fn run(arguments: &InitArguments) -> anyhow::Result<Outcome> {
    let path = &arguments.file;
    if path.exists() {
        return Err(misuse(anyhow!(
            "{} already exists; give another FILE, or remove it first",
            path.display()
        )));
    }
    let mut asker = if arguments.yes {
        Asker { input: &mut io::empty(), out: &mut io::sink(), is_terminal: false }
    } else {
        Asker {
            input: &mut io::stdin().lock(),
            out: &mut io::stderr(),
            is_terminal: io::stdin().is_terminal(),
        }
    };
    let shown = path.display();
    let next = if arguments.agent {
        write_checked(path, &Agent::ask(&mut asker)?.file())?;
        format!(
            "See whether the server may read everything, and start it:\n  bbq check {shown}\n  bbq serve --config {shown}"
        )
    } else {
        let answers = ask_all(&mut asker)?;
        write_checked(path, &answers.file())?;
        let message = answers.first_message();
        format!("Start the server, and send a first message:\n  bbq serve --config {shown}\n  {message}")
    };
    writeln!(io::stdout(), "{shown} is written. {next}")?;
    Ok(Outcome::Done)
}

fn ask_all(asker: &mut Asker<'_>) -> anyhow::Result<Answers> {
    let words = LISTENERS.map(|(word, _)| word);
    let question = Question {
        text: "Who sends? syslog, lines (text over TCP), http (also OpenTelemetry), bbq (its libraries, bbq send); several with commas",
        default: "syslog,lines,http,bbq",
    };
    let senders = asker.ask(&question, &|answer| ask::words(answer, words).map(drop))?;
    let question = Question {
        text: "Who may send? local: programs on this machine; all: everybody who can reach it",
        default: "local",
    };
    let reach = asker.ask(&question, &|answer| match answer {
        "local" | "all" => Ok(()),
        _ => Err("answer local or all".to_owned()),
    })?;
    let question = Question {
        text: "Where do messages go? file:PATH, http://HOST/PATH, nats:..., kafka:..., s3:..., bbq://HOST (bbq serve --help lists all)",
        default: "file:bbq-data/out/messages.log",
    };
    let sink =
        asker.ask(&question, &|answer| KINDS.parse(answer).map(drop).map_err(|why| why.to_string()))?;
    let spool = asker.ask_spool()?;
    let senders = ask::words(&senders, words).unwrap_or_else(|_| words.to_vec());
    Ok(Answers { senders, host: if reach == "all" { "0.0.0.0" } else { "127.0.0.1" }, sink, spool })
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
        ask_all(&mut Asker { input: &mut text.as_bytes(), out: &mut io::sink(), is_terminal: false })
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
