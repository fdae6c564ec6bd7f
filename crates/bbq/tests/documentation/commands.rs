//! Every command of the program that a page shows is one: the program knows the command and its options. What the commands of the tutorial,
//! of README and of the pages of senders do is tried by the tests of senders.

use std::collections::BTreeMap;
use std::process::Command;

use crate::pages::{self, BBQ, lines};

/// Commands that have commands.
const GROUPS: [&str; 3] = ["config", "sink", "spool"];

/// The help of commands, each asked for once.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, Option<String>>);

impl Helps {
    /// The help of a command; none if there is no such command.
    fn of(&mut self, command: &[String]) -> Option<&str> {
        let ask = || {
            let output = Command::new(BBQ).args(command).arg("--help").output().expect("it runs");
            output.status.success().then(|| String::from_utf8(output.stdout).expect("text"))
        };
        self.0.entry(command.to_vec()).or_insert_with(ask).as_deref()
    }
}

/// The parts of a line that begin with the program: `a | bbq send --quiet` has one.
fn commands_of(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for part in line.split(['|', ';', '&', '(']) {
        let part = part.trim_start().trim_start_matches("$ ");
        // A text behind it, in columns, or a comment.
        let part = part.split("   ").next().unwrap_or_default();
        let part = part.split(" #").next().unwrap_or_default();
        if let Some(words) = part.strip_prefix("bbq ") {
            found.push(words);
        }
    }
    found
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|character| character.is_ascii_lowercase() || character == '-')
}

/// What is wrong with a command, without the program's name.
fn mistake(words: &str, helps: &mut Helps) -> Option<String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let first = words.first().filter(|word| is_word(word))?;
    let mut command = vec![(*first).to_owned()];
    if GROUPS.contains(first)
        && let Some(second) = words.get(1).filter(|word| is_word(word) && !word.starts_with('-'))
    {
        command.push((*second).to_owned());
    }
    // The latter has no help of its own.
    if command[0].starts_with("--") || command[0] == "help" {
        return None;
    }
    let Some(help) = helps.of(&command) else { return Some(format!("no command {}", command.join(" "))) };
    // What is quoted is a value.
    let mut is_quoted = false;
    for word in &words[command.len()..] {
        let quotes = word.matches('\'').count();
        if !is_quoted && word.starts_with('-') && word.len() > 1 {
            let option = word.split(['=', '\'', '`', ',', ')']).next().unwrap_or_default();
            let has = help.split([' ', ',', '\n', '[', ']']).any(|known| known == option);
            if !has {
                return Some(format!("{} has no option {option}", command.join(" ")));
            }
        }
        is_quoted ^= quotes % 2 == 1;
    }
    None
}

#[test]
fn every_command_of_a_page_is_one() {
    let (mut helps, mut checked, mut mistakes) = (Helps::default(), 0, Vec::new());
    for (page, text) in pages::all() {
        // What it says of earlier versions stays.
        if page == "CHANGELOG.md" {
            continue;
        }
        let mut try_command = |words: &str| {
            checked += 1;
            mistakes
                .extend(mistake(words, &mut helps).map(|mistake| format!("{page}: {mistake}: bbq {words}")));
        };
        for line in lines(&text) {
            if line.is_code {
                commands_of(line.text).into_iter().for_each(&mut try_command);
            } else {
                let spans = line.text.split('`').skip(1).step_by(2);
                spans.flat_map(commands_of).for_each(&mut try_command);
            }
        }
    }
    assert!(checked > 200, "only {checked} commands were found");
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}
