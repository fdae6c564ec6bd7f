//! The tests, all of them, with cargo's own output.

use crate::needs;
use crate::step::cargo;

pub(crate) fn run() -> Result<(), String> {
    needs::provide()?;
    // bbq-server turns bbq-listen's feature `tokio` on, and cargo builds a package of the workspace once: so its tests
    // run with it.
    cargo(&[], &["test", "--workspace", "--release", "--locked", "--no-fail-fast"])
}
