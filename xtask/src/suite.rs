//! All tests, with the output of cargo and pytest, and with the counts of all of them at the end.

use std::path::Path;

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
    let cargos = step::cargo_watched(&TEST, &mut |line| output.read(line));
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
