//! If this fails, a man page has errors or lacks an option, a shell does not complete what is typed, or a command line that is no text
//! ends the program by a panic.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::BBQ;

fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask test` installs it"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn printed(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).expect("text")
}

/// The commands of a page's name: `bbq-spool-cat.1`, of the ways to write it the one that the program takes.
fn help(page: &str) -> String {
    let words: Vec<&str> = page.trim_end_matches(".1").split('-').skip(1).collect();
    let whole = words.join("-");
    let ways = [words, vec![&*whole]];
    let help =
        ways.iter().map(|words| Command::new(BBQ).args(words).arg("--help").output().expect("it runs"));
    let taken =
        help.into_iter().find(|help| help.status.success()).unwrap_or_else(|| panic!("no command of {page}"));
    String::from_utf8(taken.stdout).expect("text")
}

/// The words that begin with a minus sign.
fn options(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-');
    words.filter(|word| word.starts_with('-') && word.ends_with(char::is_alphanumeric)).collect()
}

#[test]
fn the_man_pages_have_every_option_and_no_errors() {
    let directory = tempfile::tempdir().expect("a directory");
    run(Command::new(BBQ).arg("manual").arg(directory.path()));
    let mut pages = 0;
    for entry in fs::read_dir(directory.path()).expect("it is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let shown = run(Command::new("groff").args(["-man", "-Tutf8", "-ww", "-P-cbou"]).arg(&path));
        let (text, complaints) =
            (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
        assert!(complaints.is_empty(), "{name}: {complaints}");
        let last = text.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
        let words: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(
            words,
            ["bbq", env!("CARGO_PKG_VERSION"), &*format!("{}(1)", name.trim_end_matches(".1"))]
        );
        // An example is a line, as in the help.
        assert!(name != "bbq-top.1" || text.lines().any(|line| line.trim() == "bbq top --once"), "{text}");
        // groff writes a minus sign or a hyphen.
        let text = text.replace(['\u{2010}', '\u{2212}'], "-");
        let (help, known) = (help(&name), options(&text));
        for option in options(&help) {
            assert!(known.contains(option), "{name} has no {option}\n{text}");
        }
        pages += 1;
    }
    assert!(pages > 12, "{pages}");
    let page = printed(Command::new(BBQ).args(["man", "sink", "rename"]));
    assert_eq!(page, fs::read_to_string(directory.path().join("bbq-sink-rename.1")).expect("a page"));
    let wrong = Command::new(BBQ).args(["man", "sink", "rename", "all"]).output().expect("it runs");
    assert_eq!(wrong.status.code(), Some(2));
    let why = String::from_utf8(wrong.stderr).expect("text");
    assert!(why.contains("\"all\" is not a command of rename; there are: none"), "{why}");
}

/// The script for a shell, in a file.
fn script(directory: &Path, shell: &str) -> String {
    let path = directory.join(format!("completions.{shell}"));
    fs::write(&path, printed(Command::new(BBQ).args(["completions", shell]))).expect("a file");
    path.display().to_string()
}

/// What is typed, and a word that comes of it: a command, an option, a value.
const TYPED: [(&str, &str); 7] = [
    ("bbq ser", "serve"),
    ("bbq serve --dis", "--distribution"),
    ("bbq completions z", "zsh"),
    ("bbq spool ", "repair"),
    ("bbq tail --severity wa", "warning"),
    ("bbq serve --distribution reu", "reuseport"),
    ("bbq config explain spool.by", "spool.bytes_max"),
];

#[test]
fn bash_completes_commands_options_and_values() {
    const COMPLETE: &str = r#"
        set -eu
        . "$1"
        IFS=' ' read -r -a COMP_WORDS <<< "$2"
        [[ $2 != *' ' ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _bbq bbq "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let directory = tempfile::tempdir().expect("a directory");
    let script = script(directory.path(), "bash");
    for (typed, word) in TYPED {
        let words = printed(Command::new("bash").args(["-c", COMPLETE, "bash", &script, typed]));
        assert!(words.lines().any(|line| line == word), "{typed}: {words}");
    }
}

/// Of values it completes only those that belong to an option.
#[test]
fn fish_completes_commands_and_options() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = script(directory.path(), "fish");
    for (typed, word) in TYPED.into_iter().filter(|(typed, _)| {
        !["bbq completions", "bbq config explain"].iter().any(|own| typed.starts_with(own))
    }) {
        let complete = format!("source {script}; complete -C '{typed}'");
        let words = printed(
            Command::new("fish").args(["--no-config", "-c", &complete]).env("HOME", directory.path()),
        );
        assert!(words.lines().any(|line| line.split('\t').next() == Some(word)), "{typed}: {words}");
    }
}

/// It completes only at a terminal.
#[test]
fn zsh_knows_how_to_complete() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = script(directory.path(), "zsh");
    let load = format!("autoload -Uz compinit && compinit -u -D && source {script} && print -- $_comps[bbq]");
    assert_eq!(printed(Command::new("zsh").args(["-f", "-c", &load])), "_bbq\n");
}

/// Arguments may be any bytes but zero.
#[test]
fn a_command_that_is_no_text_is_refused_as_any_other() {
    let output = Command::new(BBQ).arg(OsStr::from_bytes(b"\xffstop")).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
}
