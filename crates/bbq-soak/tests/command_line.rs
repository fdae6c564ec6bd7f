//! If this fails, a soak with a mistake on its command line runs with other settings than were meant.
//!
//! As it is a test of the program, cargo builds the program for the tests, and continuous integration runs that one.

use std::process::Command;

#[test]
fn mistakes_are_named_and_nothing_runs() {
    for (options, named) in [
        (["chain", "--kills=often"], "--kills"),
        (["chain", "--bbq=/nowhere/bbq"], "/nowhere/bbq"),
        (["edges", "--minutes=ten"], "--minutes"),
        (["edges", "--bbq=/nowhere/bbq"], "/nowhere/bbq"),
        (["--minutes", "ten"], "--minutes"),
        (["--seed", "-1"], "-1"),
        (["--disk", "wet"], "--disk"),
        (["--bbq", "/nowhere/bbq"], "/nowhere/bbq"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_bbq-soak")).args(options).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(named), "{options:?}: {text}");
    }
}
