//! If this fails, a command of docs/GUIDE.md does not do what the page says when a user types it.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use super::typed::Typed;

const PAGE: &str = include_str!("../../../../docs/GUIDE.md");

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

#[test]
fn every_command_does_what_the_page_says() {
    let steps = steps();
    assert!(steps.iter().filter(|step| step.output.is_some()).count() > 4, "the page was not understood");
    let typed = Typed::run(steps.iter().map(|step| step.commands.as_str()));
    for (number, step) in steps.iter().enumerate() {
        let shown = typed.printed(number);
        // In this order; a sender may say besides that it waited for the server.
        let mut printed = shown.lines();
        for line in step.output.iter().flat_map(|output| output.lines()) {
            assert!(
                printed.any(|printed| printed.split(',').next() == Some(line) || printed == line),
                "{}{line:?} is missing:\n{shown}",
                step.commands
            );
        }
    }
}
