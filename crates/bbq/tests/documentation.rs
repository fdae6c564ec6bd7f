//! What the documentation says of the configuration is what the program does: if this fails, an operator writes what the
//! page says and is refused, or never learns of a key.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const PAGE: &str = include_str!("../../../docs/CONFIGURATION.md");
const CLIENTS: &str = include_str!("../../../docs/CLIENTS.md");
const BBQ: &str = env!("CARGO_BIN_EXE_bbq");

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

/// What the program says when it refuses a file.
fn refusal(text: &str) -> String {
    let output = check(text);
    assert_eq!(output.status.code(), Some(2), "{text} was not refused: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The part of the page under a heading of the second level.
fn section(heading: &str) -> &'static str {
    section_of(PAGE, heading)
}

fn section_of(page: &'static str, heading: &str) -> &'static str {
    let (_, rest) =
        page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split("\n## ").next().unwrap()
}

/// Rows of the tables whose first column is headed so, without head and line, in cells.
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

/// The list behind these words in a refusal.
fn known(refusal: &str, words: &str) -> BTreeSet<String> {
    let (_, list) = refusal.split_once(words).unwrap_or_else(|| panic!("no {words:?} in {refusal}"));
    list.trim().split(", ").map(str::to_owned).collect()
}

#[test]
fn the_complete_example_is_right_and_has_every_key_of_the_file() {
    let (_, rest) = PAGE.split_once("\n## A complete").expect("the section");
    let (_, rest) = rest.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let output = check(example);
    assert!(output.status.success(), "{output:?}");
    let spool = example.split_once("[spool]").expect("a table").1;
    for key in keys(&rows(section("The file"), "key")) {
        let (text, name) = match key.strip_prefix("spool.") {
            Some(name) => (spool, name),
            None if key == "spool" => continue,
            None => (example, key.as_str()),
        };
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

#[test]
fn the_page_has_the_keys_of_the_file_and_no_others() {
    let mut expected = known(&refusal("nonsense = 1\n"), "known keys: ");
    let spool = known(&refusal("[spool]\nnonsense = 1\n"), "known keys: ");
    expected.extend(spool.iter().map(|key| format!("spool.{key}")));
    assert_eq!(keys(&rows(section("The file"), "key")), expected);
}

#[test]
fn the_page_has_the_keys_of_listeners_and_sinks_and_no_others() {
    let options = |text: &str| known(&refusal(text), "known options: ");
    let listen = options("listen = [\"lines+tcp://127.0.0.1:1?nonsense=1\"]\n");
    assert_eq!(keys(&rows(section("Listeners"), "key")), listen);
    let file = options("sink = [\"file:a?nonsense=1\"]\n");
    let sinks = rows(section("Sinks"), "key");
    assert_eq!(keys(&sinks), file);
    // Those for files are marked so.
    let stdout = options("sink = [\"stdout:?nonsense=1\"]\n");
    let of_files: Vec<_> = sinks.iter().filter(|row| row[3].starts_with("file: ")).cloned().collect();
    assert_eq!(keys(&of_files), file.difference(&stdout).cloned().collect());
}

/// The long options of a command, as its help has them, but for the help.
fn options(command: &str) -> BTreeSet<String> {
    let help = Command::new(BBQ).args([command, "--help"]).output().expect("it runs");
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let options = options.filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")));
    options.filter(|option| *option != "--help").map(str::to_owned).collect()
}

#[test]
fn the_page_has_the_options_of_serve_and_no_others() {
    assert_eq!(keys(&rows(section("Options"), "option")), options("serve"));
}

#[test]
fn the_page_for_clients_has_the_options_of_send_and_no_others() {
    let rows = rows(section_of(CLIENTS, "Without a program: bbq send"), "option");
    let mut there = keys(&rows);
    assert!(there.remove("FILE..."), "{there:?}");
    assert_eq!(there, options("send"));
}

#[test]
fn the_defaults_of_the_page_are_those_of_the_program() {
    let text = |output: Output| {
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_once('\n').expect("more lines").1.to_owned()
    };
    let options = section("Options");
    let (_, listen) = options.split_once("Without `--listen`: ").expect("the listeners");
    let listen: Vec<&str> = quoted(listen.split("\n\n").next().unwrap());
    let mut written = format!("listen = {listen:?}\n");
    let mut spool = String::from("[spool]\n");
    for row in rows(section("The file"), "key") {
        let (key, default) = (quoted(row[0])[0], quoted(row[1]));
        match (key.strip_prefix("spool."), default.first()) {
            (Some(key), Some(default)) => spool.push_str(&format!("{key} = {default}\n")),
            (None, Some(default)) => written.push_str(&format!("{key} = {default}\n")),
            (_, None) => {}
        }
    }
    assert_eq!(text(check(&format!("{written}{spool}"))), text(check("# defaults\n")));
}

/// Tries what the column of values says: each word, or both bounds and what is beyond them.
fn try_values(rows: &[Vec<&'static str>], spec: impl Fn(&str) -> String) {
    for row in rows {
        let key = quoted(row[0])[0];
        let accepts = |value: &str| is_right(&spec(&format!("{key}={value}")));
        let values = row[2];
        if key == "name" {
            // Any text within the length that the page tells.
            assert_eq!(values, "1 to 200 bytes, no control character");
            assert!(accepts("any text") && accepts(&"é".repeat(100)));
            assert!(
                !accepts("")
                    && !accepts(&"n".repeat(201))
                    && !accepts(&"é".repeat(101))
                    && !accepts("a\u{7}")
            );
            continue;
        }
        for word in quoted(values) {
            assert!(accepts(word), "{key}={word} is refused");
        }
        let number = |text: &str| text.replace(',', "").parse::<u64>();
        match values.split_once(" to ") {
            Some((least, most)) => {
                let (least, most) = (number(least).unwrap(), number(most).unwrap());
                assert!(
                    accepts(&least.to_string()) && accepts(&most.to_string()),
                    "{key}: {values} is refused"
                );
                assert!(!accepts(&(least - 1).to_string()), "{key}: less than {values} is taken");
                assert!(!accepts(&(most + 1).to_string()), "{key}: more than {values} is taken");
            }
            None => assert!(!accepts("nonsense") && !quoted(values).is_empty(), "{key}: {values}"),
        }
    }
}

#[test]
fn the_values_of_listeners_and_sinks_are_taken_and_others_are_not() {
    try_values(&rows(section("Listeners"), "key"), |pair| {
        // A key that could have no effect is refused.
        let transport = if pair.starts_with("receive_buffer_bytes") { "udp" } else { "tcp" };
        format!("listen = [\"lines+{transport}://127.0.0.1:1?{pair}\"]\n")
    });
    // keep needs one of the others beside it.
    try_values(&rows(section("Sinks"), "key"), |pair| {
        let more = if pair.starts_with("keep") { "&rotate=daily" } else { "" };
        format!("sink = [\"file:a?{pair}{more}\"]\n")
    });
}

#[test]
fn every_link_between_the_pages_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut checked = 0;
    for page in
        ["README.md", "CONTRIBUTING.md", "docs/CONFIGURATION.md", "docs/OPERATIONS.md", "docs/PROTOCOL.md"]
    {
        let path = root.join(page);
        let text = fs::read_to_string(&path).expect(page);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            // Measured on the machine of whoever releases; the page comes with its figures.
            if file.ends_with("docs/RESULTS.md") && !file.exists() {
                continue;
            }
            assert!(file.exists(), "{page}: {target} leads nowhere");
            if !anchor.is_empty() {
                let there = fs::read_to_string(&file).unwrap();
                let anchors = there.lines().filter(|line| line.starts_with('#')).map(anchor_of);
                assert!(
                    anchors.into_iter().any(|found| found == anchor),
                    "{page}: {target} has no such heading"
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} links were found");
}

/// The anchor that a heading gets: small letters, hyphens for spaces, no punctuation.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.map(|character| if character == ' ' { '-' } else { character }).collect()
}
