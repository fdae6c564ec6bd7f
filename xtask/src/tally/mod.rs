//! The result of tests: how many passed, which failed, and the command that runs each failed one again.
//!
//! It is parsed from the output of cargo and pytest, line by line.

mod cargo;
mod pytest;

use std::fmt;

pub(crate) use cargo::CargoOutput;
pub(crate) use pytest::PytestOutput;

/// The counts of all test programs so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    programs: usize,
    passed: usize,
    failed: usize,
    ignored: usize,
    failures: Vec<Failure>,
}

/// A test that failed, or a program that ended before all its tests had.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    name: String,
    /// The command that runs it again.
    again: String,
    /// What it printed, from its first panic on, where that is known.
    told: Vec<String>,
}

impl Tally {
    /// The sum of both.
    pub(crate) fn and(mut self, other: Tally) -> Tally {
        self.programs += other.programs;
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
        self
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { programs, passed, failed, ignored, failures } = self;
        write!(f, "{passed} tests passed, {failed} failed, {ignored} ignored, in {programs} test programs")?;
        for Failure { name, again, told } in failures {
            write!(f, "\nfailed: {name}\n    {again}")?;
            for line in told.iter().filter(|line| !line.is_empty()) {
                write!(f, "\n    | {line}")?;
            }
        }
        Ok(())
    }
}

/// The number before a word: 5 of "5 passed".
fn count_of(text: &str, word: &str) -> usize {
    let mut words = text.split([' ', ',', ';', '.']).filter(|word| !word.is_empty());
    let mut before = None;
    for next in &mut words {
        if next == word {
            return before.and_then(|number: &str| number.parse().ok()).unwrap_or(0);
        }
        before = Some(next);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_names_what_failed_and_how_to_run_it_again() {
        let failure =
            Failure { name: "a::b".to_owned(), again: "cargo test a::b".to_owned(), told: Vec::new() };
        let one = Tally { programs: 1, passed: 2, failed: 1, ignored: 0, failures: vec![failure] };
        let other = Tally { programs: 2, passed: 3, failed: 0, ignored: 4, failures: Vec::new() };
        assert_eq!(
            one.and(other).to_string(),
            "5 tests passed, 1 failed, 4 ignored, in 3 test programs\nfailed: a::b\n    cargo test a::b"
        );
    }

    #[test]
    fn a_count_stands_in_front_of_its_word() {
        assert_eq!(count_of("test result: ok. 12 passed; 3 failed; 1 ignored", "failed"), 3);
        assert_eq!(count_of("1 failed, 12 passed in 3.1s", "passed"), 12);
        assert_eq!(count_of("no tests ran in 0.1s", "passed"), 0);
    }
}
