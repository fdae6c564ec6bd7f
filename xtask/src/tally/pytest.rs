//! The output of pytest: a short summary of what failed, and a line with the counts at the end.

use super::{Failure, Tally, count_of};

/// Reads the output of one run.
#[derive(Debug)]
pub(crate) struct PytestOutput {
    tally: Tally,
    /// The command, without the name of a test.
    command: String,
}

impl PytestOutput {
    /// Parses the output of `command`.
    pub(crate) fn of(command: String) -> PytestOutput {
        PytestOutput { tally: Tally::default(), command }
    }

    pub(crate) fn read(&mut self, line: &str) {
        let text = line.trim();
        if let Some(rest) = text.strip_prefix("FAILED ").or_else(|| text.strip_prefix("ERROR ")) {
            // The reason follows the name.
            let name = rest.split_once(" - ").map_or(rest, |(name, _)| name);
            let again = format!("{} '{name}'", self.command);
            self.tally.failures.push(Failure { name: name.to_owned(), again, told: Vec::new() });
        } else if is_count(text) {
            self.tally.programs = 1;
            self.tally.passed = count_of(text, "passed");
            self.tally.failed = count_of(text, "failed") + count_of(text, "errors") + count_of(text, "error");
            self.tally.ignored = count_of(text, "skipped");
        }
    }

    /// The result.
    pub(crate) fn tally(self) -> Tally {
        self.tally
    }
}

/// "1 failed, 12 passed, 1 skipped in 3.12s".
fn is_count(text: &str) -> bool {
    let text = text.trim_matches(['=', ' ']);
    let Some((counts, time)) = text.rsplit_once(" in ") else { return false };
    let has_time = time.split_once('s').is_some_and(|(seconds, _)| seconds.parse::<f64>().is_ok());
    has_time && counts.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut read = PytestOutput::of("pytest".to_owned());
        output.lines().for_each(|line| read.read(line));
        read.tally()
    }

    #[test]
    fn a_run_that_passes_is_counted() {
        let tally = tally("........s  [100%]\n8 passed, 1 skipped in 12.34s\n");
        assert_eq!(tally.to_string(), "8 tests passed, 0 failed, 1 ignored, in 1 test programs");
    }

    #[test]
    fn a_test_that_fails_is_named_with_the_command_that_runs_it_again() {
        let tally = tally(
            ".F.E [100%]\n=== FAILURES ===\n1 thing is in 2 places\n=== short test summary info ===\n\
             FAILED tests/test_a.py::test_b[x - y] - AssertionError: 1 - 2\nERROR tests/test_a.py::test_c\n\
             1 failed, 2 passed, 1 error in 75.00s (0:01:15)\n",
        );
        assert!(
            tally.to_string().starts_with("2 tests passed, 2 failed, 0 ignored, in 1 test programs"),
            "{tally}"
        );
        assert!(tally.to_string().ends_with("    pytest 'tests/test_a.py::test_c'"), "{tally}");
    }
}
