//! All tests, with the output of cargo and pytest, and with the counts of all of them at the end.

use std::env;
use std::num::NonZero;
use std::path::Path;
use std::thread;

use crate::go;
use crate::go_server::{NATS, VERSITYGW, VICTORIA_LOGS};
use crate::kafka;
use crate::needs;
use crate::python;
use crate::step;
use crate::tally::{CargoOutput, Tally};
use crate::unpacked;

// bbq-server turns bbq-listen's feature `tokio` on, and cargo builds a package of the workspace once: so its tests run with
// it. Its sinks that are features are on, too.
const TEST: [&str; 7] =
    ["test", "--workspace", "--features", step::EVERY_SINK, "--release", "--locked", "--no-fail-fast"];

/// How many tests run at the same time: cargo's variable.
const THREADS: &str = "RUST_TEST_THREADS";
/// Unless it is set, so many for each processor: most of them wait for other processes, and for time to go by.
const TESTS_PER_PROCESSOR: usize = 2;

pub(crate) fn run(root: &Path) -> Result<(), String> {
    needs::provide()?;
    go::provide(root)?;
    NATS.provide(root)?;
    kafka::provide(root)?;
    VERSITYGW.provide(root)?;
    VICTORIA_LOGS.provide(root)?;
    unpacked::provide()?;
    // Build first, so that cargo has the terminal, and a failed build does not count as a test.
    step::cargo(&[], &[&TEST[..], &["--no-run"]].concat())?;
    let mut output = CargoOutput::default();
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let tests = env::var(THREADS).unwrap_or_else(|_| (TESTS_PER_PROCESSOR * processors).to_string());
    let cargos = step::cargo_watched(&[(THREADS, &tests)], &TEST, &mut |line| output.read(line));
    // These run even if tests have failed before.
    let (pythons, tally) = python::test(root);
    tell(&output.tally().and(tally), cargos.and(pythons))
}

/// The tests of the Python package alone.
pub(crate) fn run_python(root: &Path) -> Result<(), String> {
    let (done, tally) = python::test(root);
    tell(&tally, done)
}

fn tell(tally: &Tally, done: Result<(), String>) -> Result<(), String> {
    eprintln!("xtask: {tally}");
    done
}
