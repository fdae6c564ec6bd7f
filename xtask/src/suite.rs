//! The tests, all of them, with the output of cargo and pytest.

use std::path::Path;

use crate::needs;
use crate::python;
use crate::step::cargo;

pub(crate) fn run(root: &Path) -> Result<(), String> {
    needs::provide()?;
    // bbq-server turns bbq-listen's feature `tokio` on, and cargo builds a package of the workspace once: so its tests
    // run with it.
    let cargos = cargo(&[], &["test", "--workspace", "--release", "--locked", "--no-fail-fast"]);
    // A test that fails there is no reason not to hear of those here.
    let pythons = python::test(root);
    cargos.and(pythons)
}
