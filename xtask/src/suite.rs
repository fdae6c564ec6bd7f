//! All tests, with the output of their programs, cargo and pytest, and with the counts of all of them at the end.
//!
//! Cargo builds the test programs and would run one after the other. Most of them wait most of their time, for brokers, clocks and
//! disks: so they run here, a few beside each other, and only those of `ALONE` as cargo does it.

use std::env;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::Path;
use std::thread;

use crate::beside::{self, Ended, Job};
use crate::book;
use crate::go;
use crate::go_server::{NATS, VERSITYGW, VICTORIA_LOGS};
use crate::kafka;
use crate::kubernetes;
use crate::libraries;
use crate::needs;
use crate::python;
use crate::step::{self, PACKAGE};
use crate::tally::{CargoOutput, Tally};
use crate::test_program::{self, TestProgram};
use crate::unpacked;
use crate::watched::{self, Hangs, SILENCE_MAX};

// bbq-server turns bbq-listen's feature `tokio` on, and cargo builds a package of the workspace once: so its tests run with
// it. Its sinks that are features are on, too.
const TEST: [&str; 7] =
    ["test", "--workspace", "--features", step::EVERY_SINK, "--release", "--locked", "--no-fail-fast"];
/// What cargo calls instead of rustc: test programs are built faster, and what is packaged is built as always.
const RUSTC: &str = "xtask/src/rustc_of_tests.sh";
const DOCUMENTATION: &str = "the tests in the documentation";
const PYTHON: &str = "the tests of the Python package";
const BOOK: &str = "the book";

/// As many tests as processors run within a program, and they compute less than half of the time. Three programs would compute all
/// of the time, and tests that give something ten seconds would then see a slow machine.
const AT_ONCE: usize = 2;
/// A test program: its package and its name.
type Test = (&'static str, &'static str);
/// They begin before the others, the longest first, so that no long one is left for the end.
const LONG: [Test; 6] = [
    (PACKAGE, "sinks"),
    (PACKAGE, "lifecycle"),
    (PACKAGE, "senders"),
    ("bbq-spool", "spool"),
    (PACKAGE, "admin"),
    (PACKAGE, "sessions"),
];
/// Programs that need the machine to themselves: they measure times, look for a loop that takes a processor, or share connections out
/// by the load of processors.
const ALONE: [Test; 4] = [
    (PACKAGE, "bench"),
    ("bbq-listen", "batches"),
    ("bbq-listen", "descriptors_run_out"),
    ("bbq-listen", "spreading"),
];
/// The longest program, whose tests wait for brokers, clocks and servers two thirds of their time: a test more for every two processors
/// shortens it. With twice as many tests as processors, the syncs of their disks were too slow for some of them.
const WAITING: Test = (PACKAGE, "sinks");
/// Where libtest reads how many tests run at a time.
const THREADS: &str = "RUST_TEST_THREADS";
/// So many programs are named at the end with their time.
const SLOWEST: usize = 10;

/// How a job ended: the counts are there if it failed, too.
type Outcome = (Result<(), String>, Tally);

pub(crate) fn run(root: &Path) -> Result<(), String> {
    needs::provide_to_build()?;
    if !needs::is_root() {
        // It only says what is missing, and does so before the build.
        needs::provide()?;
    }
    let wrapper = root.join(RUSTC).display().to_string();
    let variables = [("RUSTC_WORKSPACE_WRAPPER", wrapper.as_str())];
    let (programs, provided) = thread::scope(|scope| {
        let provided = scope.spawn(|| provide(root));
        let programs = test_program::build(root, &variables, &TEST);
        (programs, provided.join().unwrap_or_else(|_| Err("a thread of xtask panicked".to_owned())))
    });
    let (mut programs, ()) = (programs?, provided?);
    programs.sort_by_key(|program| LONG.iter().position(|test| is(program, *test)).unwrap_or(LONG.len()));
    let (alone, others): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| ALONE.iter().any(|test| is(program, *test)));

    // Its wheel is built first, which takes the processors while programs wait.
    let python = job(PYTHON, {
        let root = root.to_owned();
        move |shown| python::test(&root, &mut |line| shown.line(line))
    });
    let documentation = job(DOCUMENTATION, {
        let wrapper = wrapper.clone();
        move |shown| documentation(&wrapper, shown)
    });
    let mut jobs: Vec<_> = others.into_iter().map(of_program).collect();
    jobs.insert(1.min(jobs.len()), python);
    jobs.push(documentation);
    jobs.push(job(BOOK, {
        let root = root.to_owned();
        move |shown| (book::build(&root, &mut |line| shown.line(line)), Tally::default())
    }));
    let mut ended = beside::run(jobs, AT_ONCE);
    ended.extend(beside::run(alone.into_iter().map(of_program).collect(), 1));
    sum(ended)
}

/// The tests of the Python package alone.
pub(crate) fn run_python(root: &Path) -> Result<(), String> {
    let (done, tally) = python::test(root, &mut |line| {
        // A closed terminal fails no test.
        let _closed = io::stderr().write_all(line);
    });
    eprintln!("xtask: {tally}");
    done
}

/// What the tests need, beside what they are built with.
fn provide(root: &Path) -> Result<(), String> {
    needs::provide()?;
    go::provide(root)?;
    NATS.provide(root)?;
    kafka::provide(root)?;
    VERSITYGW.provide(root)?;
    VICTORIA_LOGS.provide(root)?;
    kubernetes::provide(root)?;
    libraries::provide(root)?;
    unpacked::provide()?;
    book::provide(root)
}

fn is(program: &TestProgram, (package, name): Test) -> bool {
    program.options == format!("-p {package} --test {name}")
}

fn job(name: &str, run: impl FnOnce(&mut beside::Shown) -> Outcome + Send + 'static) -> Job<Outcome> {
    Job { name: name.to_owned(), run: Box::new(run) }
}

fn of_program(program: TestProgram) -> Job<Outcome> {
    let name = program.shown.clone();
    job(&name, move |shown| test(&program, shown))
}

fn test(program: &TestProgram, shown: &mut beside::Shown) -> Outcome {
    let TestProgram { shown: name, options, .. } = program;
    let mut output = CargoOutput::of_program(name, options);
    shown.line(format!("     Running {name}\n").as_bytes());
    let mut command = program.command();
    if is(program, WAITING) && env::var_os(THREADS).is_none() {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS, (processors + processors.div_ceil(2)).to_string());
    }
    let status = watched::status(command, Hangs::All, SILENCE_MAX, &mut |line| {
        shown.line(line);
        output.read(&String::from_utf8_lossy(line));
    });
    let problem = match status {
        Ok(status) if status.success() => return (Ok(()), output.tally()),
        Ok(status) => status.to_string(),
        Err(error) => format!("cannot run it: {error}"),
    };
    output.ended_with_failure();
    shown.line(format!("error: test failed ({problem}), to rerun pass `{options}`\n").as_bytes());
    (Err(format!("{name}: {problem}")), output.tally())
}

fn documentation(wrapper: &str, shown: &mut beside::Shown) -> Outcome {
    let mut output = CargoOutput::default();
    let arguments = [&TEST[..], &["--doc"]].concat();
    let done = step::cargo_watched(&[("RUSTC_WORKSPACE_WRAPPER", wrapper)], &arguments, &mut |line| {
        shown.line(line);
        output.read(&String::from_utf8_lossy(line));
    });
    (done, output.tally())
}

/// Tells the times of the slowest, the counts, and what failed.
fn sum(mut ended: Vec<Ended<Outcome>>) -> Result<(), String> {
    ended.sort_by_key(|ended| std::cmp::Reverse(ended.seconds));
    for Ended { name, seconds, .. } in ended.iter().take(SLOWEST) {
        eprintln!("xtask: {seconds:>4} s {name}");
    }
    let (mut tally, mut problems) = (Tally::default(), Vec::new());
    for Ended { value: (done, counts), .. } in ended {
        tally = tally.and(counts);
        problems.extend(done.err());
    }
    eprintln!("xtask: {tally}");
    if problems.is_empty() { Ok(()) } else { Err(format!("tests failed:\n  {}", problems.join("\n  "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(name: &str, done: Result<(), String>, output: &str) -> Ended<Outcome> {
        let mut read = CargoOutput::of_program(name, "--lib");
        read.read(output);
        Ended { name: name.to_owned(), seconds: 1, value: (done, read.tally()) }
    }

    #[test]
    fn one_failure_fails_all_and_is_named() {
        let result = "test result: ok. 1 passed; 0 failed; 0 ignored";
        let passed = || ended("a", Ok(()), result);
        assert_eq!(sum(vec![passed(), passed()]), Ok(()));
        let failed = ended("b", Err("b: exit status: 101".to_owned()), result);
        let all = sum(vec![passed(), failed, passed()]);
        assert_eq!(all, Err("tests failed:\n  b: exit status: 101".to_owned()));
    }
}
