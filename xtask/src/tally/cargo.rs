//! The output of `cargo test --no-fail-fast`: of cargo, which names each program, and of the programs, which name the tests. The output
//! of one program alone is read in the same way.

use super::{Failure, Tally, count_of};

/// So many lines of what a failed test printed are told with its name, from its first panic on: a log may follow, which is in the
/// output.
const TOLD_MAX: usize = 20;

/// Reads the output of one `cargo test`, standard output and standard error together.
#[derive(Debug, Default)]
pub(crate) struct CargoOutput {
    tally: Tally,
    programs: Vec<Program>,
    /// The options that select each failed program, in the order in which they ran.
    failed: Vec<String>,
    is_listing: bool,
    /// The test whose output is being read.
    printing: Option<String>,
}

#[derive(Debug)]
struct Program {
    /// As cargo names it.
    name: String,
    failed: Vec<FailedTest>,
    /// Whether it has printed its result.
    is_over: bool,
}

#[derive(Debug)]
struct FailedTest {
    name: String,
    told: Vec<String>,
}

impl CargoOutput {
    /// Of one test program, which xtask runs instead of cargo.
    pub(crate) fn of_program(shown: &str, options: &str) -> CargoOutput {
        let program = Program { name: shown.to_owned(), failed: Vec::new(), is_over: false };
        let (programs, failed) = (vec![program], vec![options.to_owned()]);
        CargoOutput { programs, failed, ..CargoOutput::default() }
    }

    /// Notes that a program failed, which may have printed that all of its tests passed.
    pub(crate) fn ended_with_failure(&mut self) {
        if let Some(program) = self.programs.last_mut()
            && program.failed.is_empty()
        {
            program.is_over = false;
        }
    }

    pub(crate) fn read(&mut self, line: &str) {
        let text = line.trim();
        if self.is_printed(text) {
            return;
        }
        if let Some(name) = text.strip_prefix("Running ").or_else(|| text.strip_prefix("Doc-tests ")) {
            self.programs.push(Program { name: name.to_owned(), failed: Vec::new(), is_over: false });
        } else if let Some(counts) = text.strip_prefix("test result: ") {
            self.tally.passed += count_of(counts, "passed");
            self.tally.ignored += count_of(counts, "ignored");
            if let Some(program) = self.programs.last_mut() {
                program.is_over = true;
            }
        } else if let Some(test) =
            text.strip_prefix("test ").and_then(|test| test.strip_suffix(" ... FAILED"))
        {
            let test = test.strip_suffix(" - should panic").unwrap_or(test);
            if let Some(program) = self.programs.last_mut() {
                program.failed.push(FailedTest { name: test.to_owned(), told: Vec::new() });
            }
        } else if text.starts_with("error: ") && text.ends_with(" failed:") {
            self.is_listing = true;
        } else if self.is_listing
            && let Some(options) = text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'))
        {
            self.failed.push(options.to_owned());
        }
    }

    /// Whether a line belongs to what a failed test printed. A program shows that after all of its tests, and their names again after it.
    fn is_printed(&mut self, text: &str) -> bool {
        let heading = text.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----"));
        if let Some(test) = heading.and_then(|rest| rest.strip_suffix(" stdout")) {
            self.printing = Some(test.to_owned());
            return true;
        }
        let Some(printing) = &self.printing else { return false };
        if text == "failures:" || text.starts_with("test result: ") {
            self.printing = None;
            return false;
        }
        let failed = self.programs.last_mut().and_then(|p| p.failed.iter_mut().find(|t| t.name == *printing));
        if let Some(FailedTest { told, .. }) = failed
            && told.len() < TOLD_MAX
            && (!told.is_empty() || text.contains(" panicked at "))
        {
            told.push(text.to_owned());
        }
        true
    }

    /// The result of all programs.
    pub(crate) fn tally(self) -> Tally {
        let mut tally = self.tally;
        tally.programs = self.programs.len();
        let failed = || self.programs.iter().filter(|program| !program.failed.is_empty() || !program.is_over);
        let is_listed = failed().count() == self.failed.len();
        for (index, program) in failed().enumerate() {
            let options = if is_listed { self.failed[index].as_str() } else { "--workspace" };
            let again = format!("cargo test --release {options}");
            for test in &program.failed {
                tally.failed += 1;
                let again = format!("{again} -- --exact {}", quoted(&test.name));
                tally.failures.push(Failure { name: test.name.clone(), again, told: test.told.clone() });
            }
            if !program.is_over {
                tally.failed += 1;
                let name =
                    format!("{} ended before its tests had, or with a failure after them", program.name);
                tally.failures.push(Failure { name, again, told: Vec::new() });
            }
        }
        tally
    }
}

/// Quotes the name of a documentation test, which has blanks and brackets, and ends with the line number that `--exact` needs.
fn quoted(name: &str) -> String {
    if name.contains(' ') { format!("'{name}'") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut read = CargoOutput::default();
        output.lines().for_each(|line| read.read(line));
        read.tally()
    }

    #[test]
    fn programs_that_pass_are_counted() {
        let tally = tally(
            "     Running unittests src/lib.rs (target/release/deps/a-1)\n\nrunning 3 tests\ntest a ... ok\ntest b ... ignored\n\n\
             test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\
             \x20  Doc-tests a\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.to_string(), "3 tests passed, 0 failed, 1 ignored, in 2 test programs");
    }

    #[test]
    fn a_test_that_fails_is_named_with_the_command_that_runs_it_again() {
        let tally = tally(
            "     Running tests/a.rs (target/release/deps/a-1)\ntest one ... FAILED\ntest two ... ok\n\nfailures:\n    one\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\
             error: test failed, to rerun pass `-p x --test a`\n\
             \x20    Running tests/b.rs (target/release/deps/b-1)\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             \x20  Doc-tests y\ntest y/src/lib.rs - f (line 3) ... FAILED\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             error: doctest failed, to rerun pass `-p y --doc`\n\
             error: 2 targets failed:\n    `-p x --test a`\n    `-p y --doc`\n",
        );
        assert_eq!(
            tally.to_string(),
            "2 tests passed, 2 failed, 0 ignored, in 3 test programs\n\
             failed: one\n    cargo test --release -p x --test a -- --exact one\n\
             failed: y/src/lib.rs - f (line 3)\n    cargo test --release -p y --doc -- --exact 'y/src/lib.rs - f (line 3)'"
        );
    }

    #[test]
    fn a_program_that_ends_in_the_middle_is_a_failure() {
        let tally = tally(
            "     Running tests/a.rs (target/release/deps/a-1)\ntest one ... ok\n\
             error: test failed, to rerun pass `-p x --test a`\n\nCaused by:\n  process didn't exit successfully (signal: 6)\n\
             \x20    Running tests/b.rs (target/release/deps/b-1)\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             error: 1 target failed:\n    `-p x --test a`\n",
        );
        assert_eq!(
            tally.to_string(),
            "1 tests passed, 1 failed, 0 ignored, in 2 test programs\n\
             failed: tests/a.rs (target/release/deps/a-1) ended before its tests had, or with a failure after them\n    cargo test --release -p x --test a"
        );
    }

    #[test]
    fn a_program_alone_is_run_again_by_its_options() {
        let ends = |text: &str, has_failed: bool| {
            let mut read = CargoOutput::of_program("tests/a.rs (target/release/deps/a-1)", "-p x --test a");
            text.lines().for_each(|line| read.read(line));
            if has_failed {
                read.ended_with_failure();
            }
            read.tally().to_string()
        };
        let passed = "test one ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
        assert_eq!(ends(passed, false), "1 tests passed, 0 failed, 0 ignored, in 1 test programs");
        let after = ends(passed, true);
        assert!(after.starts_with("1 tests passed, 1 failed, 0 ignored, in 1 test programs"), "{after}");
        assert!(after.ends_with("\n    cargo test --release -p x --test a"), "{after}");
        let one = ends("test one ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n", true);
        assert_eq!(
            one,
            "0 tests passed, 1 failed, 0 ignored, in 1 test programs\nfailed: one\n    \
             cargo test --release -p x --test a -- --exact one"
        );
    }

    #[test]
    fn a_test_that_fails_is_told_with_its_first_panic() {
        let mut read = CargoOutput::of_program("tests/a.rs (a-1)", "-p x --test a");
        let text = "test one ... FAILED\ntest two ... FAILED\n\nfailures:\n\n---- one stdout ----\nseed 5\n\n\
             thread 'one' (7) panicked at tests/a.rs:3:5:\nno object came\n\n---- two stdout ----\nError: it is away\n\n\
             failures:\n    one\n    two\n\ntest result: FAILED. 0 passed; 2 failed; 0 ignored\n";
        text.lines().for_each(|line| read.read(line));
        assert_eq!(
            read.tally().to_string(),
            "0 tests passed, 2 failed, 0 ignored, in 1 test programs\n\
             failed: one\n    cargo test --release -p x --test a -- --exact one\n    \
             | thread 'one' (7) panicked at tests/a.rs:3:5:\n    | no object came\n\
             failed: two\n    cargo test --release -p x --test a -- --exact two"
        );
    }

    #[test]
    fn without_the_list_of_cargo_a_test_is_run_again_by_its_name_alone() {
        let tally = tally(
            "     Running tests/a.rs (a-1)\ntest one ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n",
        );
        assert!(tally.to_string().ends_with("cargo test --release --workspace -- --exact one"), "{tally}");
    }
}
