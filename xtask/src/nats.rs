//! nats-server, for the tests of the sink that publishes to it.
//!
//! Debian's has no atomic batches, so it is the older server of these tests. The newer one is built from its Go module into
//! target/nats, where the tests look for it.

use std::path::Path;

use crate::{go, step};

/// The version that is tested with.
const MODULE: &str = "github.com/nats-io/nats-server/v2@v2.15.2";

/// Builds the server if it is not there.
pub(crate) fn provide(root: &Path) -> Result<(), String> {
    let directory = root.join(step::target_directory()).join("nats");
    let version = directory.join("version");
    let is_there = directory.join("nats-server").exists();
    if is_there && std::fs::read_to_string(&version).is_ok_and(|built| built == MODULE) {
        return Ok(());
    }
    let go = go::program(root).ok_or("there is no Go, by which nats-server is built")?;
    let place = directory.to_string_lossy();
    // Without a workspace of Go around this repository, and for this machine.
    let variables = [("GOBIN", &*place), ("GOWORK", "off"), ("GOFLAGS", "-trimpath")];
    step::run(&variables, &go.to_string_lossy(), &["install", MODULE]).map_err(|problem| {
        format!("{problem}\nthe tests need {MODULE}: make sure that Go reaches a module proxy (GOPROXY)")
    })?;
    std::fs::write(&version, MODULE).map_err(|error| format!("cannot write {}: {error}", version.display()))
}
