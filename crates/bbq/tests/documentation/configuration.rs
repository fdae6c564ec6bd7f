//! The program does what the documentation says of the configuration. If this fails, the program refuses a documented value, or a key
//! is not documented.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use bbq_server::SINK_KINDS;
use bbq_server::config::{FILE_KEYS, NAME_OPTION, SpecOption, Subject, Values, listen_options, read_options};
use tempfile::TempDir;

use crate::pages::{self, BBQ};

const PAGE: &str = include_str!("../../../../docs/CONFIGURATION.md");
const CLIENTS: &str = include_str!("../../../../docs/CLIENTS.md");
/// If this variable is set, the tables of the page are written instead of compared.
const WRITE: &str = "BBQ_WRITE_TABLES";

/// `bbq check` of a file with this text.
fn check(text: &str) -> Output {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("bbq.toml");
    fs::write(&path, text).unwrap();
    Command::new(BBQ).arg("check").arg(&path).output().expect("it runs")
}

fn is_right(text: &str) -> bool {
    let output = check(text);
    match output.status.code() {
        Some(0) => true,
        Some(2) => false,
        _ => panic!("{output:?}"),
    }
}

fn section_of(page: &'static str, heading: &str) -> &'static str {
    let (_, rest) =
        page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split("\n## ").next().unwrap()
}

/// The rows, in cells, of the tables whose first column has this head; without the head and the line below.
fn rows(section: &'static str, first: &str) -> Vec<Vec<&'static str>> {
    let mut rows = Vec::new();
    let mut inside = false;
    for line in section.lines() {
        let Some(line) = line.strip_prefix("| ") else {
            inside &= line.starts_with('|');
            continue;
        };
        let cells: Vec<&str> = line.trim_end_matches('|').split(" | ").map(str::trim).collect();
        if inside {
            rows.push(cells);
        } else {
            inside = cells[0] == first;
        }
    }
    assert!(!rows.is_empty(), "no table of {first}");
    rows
}

/// The texts in back quotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// First words in the first column: `--listen SPEC` is `--listen`.
fn keys(rows: &[Vec<&'static str>]) -> BTreeSet<String> {
    let key = |row: &Vec<&'static str>| quoted(row[0])[0].split(' ').next().unwrap().to_owned();
    rows.iter().map(key).collect()
}

#[test]
fn the_complete_example_is_right_and_has_every_key_of_the_file() {
    let (_, rest) = PAGE.split_once("\n## A complete").expect("the section");
    let (_, rest) = rest.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let output = check(example);
    assert!(output.status.success(), "{output:?}");
    let (top, spool) = example.split_once("[spool]").expect("a table");
    for key in FILE_KEYS.iter().map(|known| known.option.key) {
        let (text, name) = key.strip_prefix("spool.").map_or((top, key), |name| (spool, name));
        assert!(
            text.lines().any(|line| line.starts_with(&format!("{name} = "))),
            "{key} is not in the example"
        );
    }
}

#[test]
fn a_table_is_the_same_as_its_spec() {
    let examples: Vec<&str> = PAGE.split("```toml\n").skip(1).take(2).collect();
    let shown = |text: &str| {
        let output = check(text.split_once("```").expect("its end").0);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let sink =
            text.lines().find(|line| line.trim_start().starts_with("sink")).expect("a sink").to_owned();
        let (head, options) = sink.split_once('?').expect("options");
        (head.to_owned(), options.split('&').map(str::to_owned).collect::<BTreeSet<_>>())
    };
    assert_eq!(shown(examples[0]), shown(examples[1]));
}

/// A table with these columns in front of default, values and meaning.
fn table<'a>(columns: &str, rows: impl IntoIterator<Item = (String, &'a SpecOption)>) -> String {
    let columns = format!("{columns} | default | values | meaning");
    let line = "|---".repeat(columns.split('|').count());
    let row = |(cells, option): (String, &SpecOption)| {
        format!("| {cells} | {} | {} | {} |\n", option.default, option.values, option.meaning)
    };
    let rows: String = rows.into_iter().map(row).collect();
    format!("| {columns} |\n{line}|\n{rows}")
}

fn words(option: &SpecOption) -> String {
    option.words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The options of sinks, each with the words of the kinds that have it.
fn sink_options() -> Vec<(&'static SpecOption, Vec<&'static str>)> {
    let all = Subject::all(&bbq_server::KINDS);
    let of_sinks = all.iter().filter_map(|subject| match subject {
        Subject::Sink(option, kinds) => Some((*option, kinds.iter().map(|kind| kind.word).collect())),
        Subject::Key(_) | Subject::Listen(_) | Subject::Read(_) => None,
    });
    of_sinks.collect()
}

/// The table that a page has at a marker of this name.
fn table_of(name: &str) -> String {
    let is_for_all = |kinds: &[&str]| kinds.len() == SINK_KINDS.len();
    match name {
        "keys of the file" => {
            let keys = FILE_KEYS.iter().map(|known| {
                let option = known
                    .argument
                    .map(|argument| format!("`--{} {argument}`", known.option.key).replace('|', "\\|"));
                (format!("`{}` | {}", known.option.key, option.unwrap_or_default()), &known.option)
            });
            table("key | option", keys)
        }
        "options of listeners" => {
            let listen = [&NAME_OPTION].into_iter().chain(listen_options());
            table("key", listen.map(|option| (words(option), option)))
        }
        "options of readers" => {
            let read = [&NAME_OPTION].into_iter().chain(read_options());
            table("key", read.map(|option| (words(option), option)))
        }
        "options of sinks" => {
            let cells = |option: &SpecOption, kinds: &[&str]| {
                let kinds = if is_for_all(kinds) { "all".to_owned() } else { kinds.join(", ") };
                format!("{} | {kinds}", words(option))
            };
            table(
                "key | sinks",
                sink_options().into_iter().map(|(option, kinds)| (cells(option, &kinds), option)),
            )
        }
        "options of all sinks" => {
            let shared = sink_options().into_iter().filter(|(_, kinds)| is_for_all(kinds));
            table("key", shared.map(|(option, _)| (words(option), option)))
        }
        // The page of some kinds has what not all kinds have.
        name => {
            let asked = name.strip_prefix("options of sinks: ").unwrap_or_else(|| panic!("no table {name}"));
            let asked: Vec<&str> = asked.split(", ").collect();
            for word in &asked {
                assert!(SINK_KINDS.iter().any(|kind| kind.word == *word), "no sink {word}");
            }
            let own = sink_options().into_iter().filter(|(_, kinds)| !is_for_all(kinds));
            let own = own.filter_map(|(option, mut kinds)| {
                kinds.retain(|kind| asked.contains(kind));
                let of =
                    if kinds.len() == asked.len() { "all of these".to_owned() } else { kinds.join(", ") };
                let cells =
                    if asked.len() == 1 { words(option) } else { format!("{} | {of}", words(option)) };
                (!kinds.is_empty()).then_some((cells, option))
            });
            table(if asked.len() == 1 { "key" } else { "key | sinks" }, own)
        }
    }
}

#[test]
fn the_tables_of_the_pages_are_made_from_the_lists_of_the_program() {
    let mut found = BTreeSet::new();
    for (name, present) in pages::of_the_book() {
        let mut page = present.clone();
        let mut from = 0;
        while let Some(start) = page[from..].find("<!-- ").map(|at| from + at) {
            let end_of_marker = page[start..].find(" -->\n").map(|at| start + at);
            from = start + 1;
            let Some(end_of_marker) = end_of_marker else { break };
            let marker = page[start + "<!-- ".len()..end_of_marker].to_owned();
            if !["keys of ", "options of "].iter().any(|begin| marker.starts_with(begin)) {
                continue;
            }
            let at = end_of_marker + " -->\n".len();
            let length = page[at..].find("<!-- end -->").expect("an end");
            page.replace_range(at..at + length, &table_of(&marker));
            found.insert(marker);
        }
        if std::env::var_os(WRITE).is_some() {
            fs::write(pages::root().join(&name), &page).unwrap();
            continue;
        }
        let first = page.lines().zip(present.lines()).find(|(made, present)| made != present);
        assert!(
            page == present,
            "{name} differs from the lists; the first lines that differ: {first:?}\nmake it anew with\n    \
             {WRITE}=1 cargo test --release -p {} --test documentation",
            env!("CARGO_PKG_NAME")
        );
    }
    for name in ["keys of the file", "options of listeners", "options of sinks", "options of all sinks"] {
        assert!(found.contains(name), "no page has the table {name}");
    }
    // Each kind with options of its own has a page with them.
    for kind in SINK_KINDS {
        let has_own = sink_options()
            .iter()
            .any(|(_, kinds)| kinds.len() < SINK_KINDS.len() && kinds.contains(&kind.word));
        let has_page = found.iter().any(|name| {
            let asked = name.strip_prefix("options of sinks: ");
            asked.is_some_and(|asked| asked.split(", ").any(|word| word == kind.word))
        });
        assert!(has_page || !has_own, "no page has the options of {}:", kind.word);
    }
}

/// The long options of a command from its help, without --help.
fn options(command: &str) -> BTreeSet<String> {
    let help = Command::new(BBQ).args([command, "--help"]).output().expect("it runs");
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let options = options.filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")));
    options.filter(|option| *option != "--help").map(str::to_owned).collect()
}

#[test]
fn serve_has_the_options_of_the_list() {
    let listed = FILE_KEYS.iter().filter(|known| known.argument.is_some());
    let listed = listed.map(|known| format!("--{}", known.option.key));
    assert_eq!(options("serve"), listed.chain(["--config".to_owned()]).collect());
}

#[test]
fn the_page_for_clients_has_the_options_of_send_and_no_others() {
    let rows = rows(section_of(CLIENTS, "Without a program: bbq send"), "option");
    let mut there = keys(&rows);
    assert!(there.remove("FILE..."), "{there:?}");
    assert_eq!(there, options("send"));
}

/// Tries the values of the list: each word, or both bounds and values beyond them.
fn try_values(options: &[SpecOption], spec: impl Fn(&str) -> String) {
    for SpecOption { key, values, .. } in options {
        let accepts = |value: &str| is_right(&spec(&format!("{key}={value}")));
        match values {
            Values::Number(range) | Values::Size(range) => {
                let [least, most] = [*range.start(), *range.end()];
                assert!(
                    accepts(&least.to_string()) && accepts(&most.to_string()),
                    "{key}: {values} is refused"
                );
                assert!(!accepts(&(least - 1).to_string()), "{key}: less than {values} is taken");
                assert!(!accepts(&(most + 1).to_string()), "{key}: more than {values} is taken");
            }
            Values::NumberOrNever(range) => {
                assert!(accepts("0") && accepts(&range.end().to_string()), "{key}: {values} is refused");
                assert!(!accepts(&(range.end() + 1).to_string()), "{key}: more than {values} is taken");
            }
            Values::NumberOrAuto(range) => {
                assert!(accepts("auto") && accepts(&range.end().to_string()), "{key}: {values} is refused");
                assert!(!accepts("0") && !accepts(&(range.end() + 1).to_string()), "{key}: {values}");
            }
            // Any text, or what only a file or the environment has.
            Values::Text { pattern: "", .. } | Values::Secret => {}
            // A list of words; the last ones may have a variable part.
            values => {
                let text = values.to_string().replace("A,B,...", "3,1").replace("=N", "=2");
                for word in text.split(", ") {
                    assert!(accepts(word), "{key}={word} is refused");
                }
                assert!(!accepts("nonsense"), "{key} takes nonsense");
            }
        }
    }
}

#[test]
fn the_values_of_listeners_and_sinks_are_taken_and_others_are_not() {
    // Those of TLS, of tokens and of credentials name files, which must be there and fit each other (access/tls_configuration.rs, sinks/https.rs). Those of
    // a socket's file, and names of servers, are tried by the unit tests of bbq-server; those of rules by bbq-intake and bbq-rules.
    let elsewhere = [
        "tls_ca",
        "tls_cert",
        "tls_key",
        "tls_client_ca",
        "tls_server_name",
        "tokens",
        "shared_key_file",
        "users_file",
        "creds",
        "mode",
        "owner",
        "group",
        "where",
        "sample",
        "redact",
        "parse",
    ];
    let is_text = |option: &&SpecOption| !elsewhere.contains(&option.key);
    let listen: Vec<SpecOption> = listen_options().filter(is_text).cloned().collect();
    try_values(&listen, |pair| {
        // A key without effect is refused.
        let is_for_udp = ["receive_buffer_bytes", "spread"].iter().any(|key| pair.starts_with(key));
        let transport = if is_for_udp { "udp" } else { "tcp" };
        format!("workers = 2\nlisten = [\"lines+{transport}://127.0.0.1:1?{pair}\"]\n")
    });
    for kind in SINK_KINDS {
        let options: Vec<SpecOption> = kind.each_option().filter(is_text).cloned().collect();
        // Some need others beside them.
        try_values(&options, |pair| {
            let more = match pair.split('=').next() {
                Some("keep") => "&rotate=daily",
                Some("create") if kind.word == "kafka" => "&progress_topic=P",
                Some("create") => "&stream=S",
                Some("replicas") => "&stream=S&create=on",
                Some("preset") => "&query=query=INSERT",
                Some("labels") => "&preset=loki&parse=json",
                Some("user") => "&password_env=PATH",
                Some("sasl") => "&user=u&password_env=PATH",
                _ => "",
            };
            let argument = match kind.argument {
                "" => "",
                url if url.ends_with("/TOPIC") && pair.starts_with("create=") => "//a/b-{host}",
                url if url.ends_with("/SUBJECT") || url.ends_with("/TOPIC") => "//a/b",
                url if url.ends_with("/PATH") => "//a/b",
                account if account.starts_with("//ACCOUNT/") => "//a/b",
                address if address.starts_with("//") => "//a",
                _ => "a",
            };
            format!("sink = [\"{}:{argument}?{pair}{more}\"]\n", kind.word)
        });
    }
}

#[test]
fn a_name_is_any_text_of_its_length() {
    let accepts = |name: &str| is_right(&format!("sink = [\"null:?name={name}\"]\n"));
    assert!(accepts("any text") && accepts(&"n".repeat(200)) && accepts(&"é".repeat(100)));
    assert!(!accepts("") && !accepts(&"n".repeat(201)) && !accepts(&"é".repeat(101)) && !accepts("a\\u0007"));
}
