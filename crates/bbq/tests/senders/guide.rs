//! If this fails, a command of docs/GUIDE.md does not do what the page says when a user types it.
//!
//! The commands run in one shell, as a reader types them, in a network of their own, because they use the default ports.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::BBQ;

const PAGE: &str = include_str!("../../../../docs/GUIDE.md");
/// The page takes a few seconds.
const SECONDS_MAX: &str = "120";

/// Commands, and what they print if the page shows it.
struct Step {
    commands: String,
    output: Option<String>,
}

fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut fences = PAGE.split("\n```");
    // Every second piece is behind a fence.
    let _text = fences.next();
    while let Some(block) = fences.next() {
        let (kind, text) = block.split_once('\n').expect("a line behind the fence");
        match kind {
            "sh" => steps.push(Step { commands: format!("{text}\n"), output: None }),
            "text" => steps.last_mut().expect("commands before it").output = Some(format!("{text}\n")),
            other => panic!("a block of {other:?}"),
        }
        // Behind the closing fence there may be a block at once.
        let Some(_text) = fences.next() else { panic!("an open block: {text}") };
    }
    steps
}

/// A shell script of all steps, each with its output in a file. Whoever ends early leaves no server behind.
fn script(steps: &[Step]) -> String {
    let mut script =
        "set -eu\nip link set lo up\ntrap 'kill -KILL $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
    for (number, step) in steps.iter().enumerate() {
        script += &format!("echo step {number} >&2\n{{\n{}}} > step-{number} 2>&1\n", step.commands);
    }
    script
}

#[test]
fn every_command_does_what_the_page_says() {
    let steps = steps();
    assert!(steps.iter().filter(|step| step.output.is_some()).count() > 4, "the page was not understood");
    let directory = tempfile::tempdir().expect("a directory");
    let programs = Path::new(BBQ).parent().expect("a directory").display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
    let done = Command::new("timeout")
        .args([SECONDS_MAX, "unshare", "--user", "--net", "--map-root-user", "bash", "-c", &script(&steps)])
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let log = fs::read_to_string(directory.path().join("bbq.log")).unwrap_or_default();
    assert!(done.status.success(), "{}\n{log}", String::from_utf8_lossy(&done.stderr));
    for (number, step) in steps.iter().enumerate() {
        let shown = fs::read_to_string(directory.path().join(format!("step-{number}"))).expect("its output");
        if let Some(output) = &step.output {
            // In this order; a sender may say besides that it waited for the server.
            let mut printed = shown.lines();
            for line in output.lines() {
                assert!(
                    printed.any(|printed| printed.split(',').next() == Some(line) || printed == line),
                    "{}{line:?} is missing:\n{shown}",
                    step.commands
                );
            }
        }
    }
}
