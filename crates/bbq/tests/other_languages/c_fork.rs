//! If this fails, a program that forks hangs, sends messages twice, or loses its children's messages.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::native::{Library, program};
use crate::support::{Setup, run};

/// As in the program.
const CHILDREN: u64 = 24;
const EACH: u64 = 200;

#[test]
fn each_process_sends_what_it_was_given_and_nothing_else() {
    processes_send_what_they_were_given(&Library::install().compile(&program("fork.c"), &["bbq"]));
}

#[test]
fn so_does_each_process_of_a_program_without_any_library() {
    processes_send_what_they_were_given(&Library::install().compile_static(&program("fork.c")));
}

fn processes_send_what_they_were_given(program: &Path) {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    // A child that hangs would keep its parent waiting for ever.
    let mut command = Command::new("timeout");
    command
        .arg("100")
        .arg(program)
        .arg(format!("bbq://{}", setup.address(0)))
        .arg(setup.path().join("spool"));
    let output = run(&mut command, b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("spool belongs to the parent process"), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let parents = printed.trim().strip_prefix("parent ").and_then(|count| count.parse::<u64>().ok());
    let parents = parents.expect("it says how many messages were its own");

    let mut expected: BTreeMap<String, u64> = BTreeMap::from([("parent".to_owned(), parents)]);
    for index in (0..CHILDREN).filter(|index| index % 4 != 0) {
        expected.insert(format!("child {index}"), EACH);
        if index % 4 == 3 {
            expected.insert(format!("child {index}'s"), EACH);
        }
    }
    server.wait_delivered(expected.values().sum::<u64>() + 1);
    let written = String::from_utf8(setup.written()).expect("text");
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    for line in written.lines().filter(|line| *line != "spooled by the parent") {
        let (who, number) = line.rsplit_once(' ').expect("a name and a number");
        let place = next.entry(who).or_default();
        assert_eq!(number.parse(), Ok(*place), "{line} is lost, twice, or out of order");
        *place += 1;
    }
    let found: BTreeMap<String, u64> = next.into_iter().map(|(who, count)| (who.to_owned(), count)).collect();
    assert_eq!(found, expected);
}
