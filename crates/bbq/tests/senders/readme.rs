//! If this fails, the session at the start of README.md does not print what it shows, or a line of a table of docs/MIGRATION.md is
//! no configuration.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::Command;

use super::typed::Typed;
use crate::support::BBQ;

const README: &str = include_str!("../../../../README.md");
const MIGRATION: &str = include_str!("../../../../docs/MIGRATION.md");
/// What somebody waits for who types: a server that listens, and, before they look, that it is through.
const WAITS: [(&str, &str); 2] = [
    ("logger ", "until grep -q ' ready ' bbq.log; do sleep 0.02; done"),
    ("cat ", "until bbq status | grep -q 'received 4 = delivered 4'; do sleep 0.02; done"),
];

/// A command, and what it prints.
struct Step<'a> {
    command: &'a str,
    output: Vec<&'a str>,
}

fn session() -> Vec<Step<'static>> {
    let block =
        README.split("```console\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a session");
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step { command, output: Vec::new() }),
            None => steps.last_mut().expect("a command before it").output.push(line),
        }
    }
    steps
}

/// The command, behind what is waited for.
fn typed(command: &str) -> String {
    let waits = WAITS.iter().filter(|(before, _)| command.starts_with(before));
    waits.map(|(_, wait)| *wait).chain([command]).collect::<Vec<_>>().join("\n")
}

/// The line without what differs from run to run and from machine to machine: numbers of clocks and processes, the name of the machine.
fn same(line: &str) -> String {
    let is_masked = |word: &str| {
        let is_time = word.len() > 19 && word.as_bytes()[10] == b'T' && word.starts_with("20");
        is_time
            || word.starts_with("pid=")
            || word.starts_with("isSynced=")
            || word.starts_with("syncAccuracy=")
    };
    let mut words: Vec<&str> = line.split(' ').filter(|word| !is_masked(word)).collect();
    for before in ["pid", "up"] {
        if let Some(place) = words.iter().position(|word| *word == before) {
            words.remove(place + 1);
        }
    }
    // Of `bbq send`, the seconds.
    if line.ends_with(" s") && line.contains(" read, ") {
        words.truncate(words.len() - 2);
    }
    // Of syslog, the name of the machine, and what logger(1) knows of its clock.
    if words.first() == Some(&"<13>1") {
        words.remove(1);
        words.truncate(words.len().min(4));
        words.push(line.rsplit(']').next().unwrap_or_default());
    }
    words.retain(|word| !word.starts_with("distribution="));
    words.join(" ")
}

#[test]
fn the_session_prints_what_it_shows() {
    let steps = session();
    assert!(
        steps.len() > 5 && steps.iter().any(|step| step.output.len() > 3),
        "the session was not understood"
    );
    let commands: Vec<String> = steps.iter().map(|step| typed(step.command)).collect();
    let session = Typed::run(commands.iter().map(String::as_str));
    for (number, step) in steps.iter().enumerate() {
        let printed = session.printed(number);
        let mut lines: Vec<String> = printed.lines().map(same).collect();
        let mut shown: Vec<String> = step.output.iter().map(|line| same(line)).collect();
        if step.command.starts_with("cat ") {
            // Several workers took them.
            lines.sort_unstable();
            shown.sort_unstable();
        }
        lines.retain(|line| !line.is_empty());
        assert_eq!(lines, shown, "{}:\n{printed}", step.command);
    }
}

/// What stands between back ticks, and begins as a configuration does.
fn configurations() -> Vec<&'static str> {
    let pieces = MIGRATION
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    pieces
        .filter(|piece| ["listen = ", "sink = ", "[spool]"].iter().any(|key| piece.starts_with(key)))
        .collect()
}

#[test]
fn the_migration_tables_are_configuration() {
    let configurations = configurations();
    assert!(configurations.len() >= 18, "{configurations:?}");
    let directory = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(["logs".to_owned()]).expect("a certificate");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("cert.pem"), made.cert.pem()).expect("a file");
    fs::write(path("key.pem"), made.signing_key.serialize_pem()).expect("a file");
    for configuration in configurations {
        // In a table of Markdown it is one line.
        let text = configuration.replace("[spool] ", "[spool]\n");
        fs::write(path("bbq.toml"), &text).expect("a file");
        let check = Command::new(BBQ)
            .args(["config", "check", "bbq.toml"])
            .current_dir(directory.path())
            .output()
            .expect("it runs");
        assert!(check.status.success(), "{text}\n{}", String::from_utf8_lossy(&check.stderr));
    }
}
