//! Programs in Go, for the tests: servers that sinks write to, and Helm. Each is built from its module into a directory of target, where
//! the tests look for it.

use std::path::Path;

use crate::{go, step};

/// A program, and the version that is tested with.
pub(crate) struct GoServer {
    /// Under target.
    directory: &'static str,
    program: &'static str,
    /// The package of the program, with the version of its module.
    package: &'static str,
}

/// Debian's has no atomic batches, so that is the older server of the tests.
pub(crate) const NATS: GoServer = GoServer {
    directory: "nats",
    program: "nats-server",
    package: "github.com/nats-io/nats-server/v2@v2.15.2",
};

/// An S3 server over a directory. It checks signatures, and refuses to write an object twice (If-None-Match).
pub(crate) const VERSITYGW: GoServer = GoServer {
    directory: "versitygw",
    program: "versitygw",
    package: "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
};

/// It takes what the presets `ndjson`, `elasticsearch`, `loki` and `splunk` make, and OpenTelemetry logs.
pub(crate) const VICTORIA_LOGS: GoServer = GoServer {
    directory: "victoria-logs",
    program: "victoria-logs",
    package: "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs@v1.52.1",
};

/// It renders the chart of packaging/helm.
pub(crate) const HELM: GoServer =
    GoServer { directory: "helm", program: "helm", package: "helm.sh/helm/v3/cmd/helm@v3.22.0" };

impl GoServer {
    /// Builds the server if it is not there.
    pub(crate) fn provide(&self, root: &Path) -> Result<(), String> {
        let directory = root.join(step::target_directory()).join(self.directory);
        let version = directory.join("version");
        let is_there = directory.join(self.program).exists();
        if is_there && std::fs::read_to_string(&version).is_ok_and(|built| built == self.package) {
            return Ok(());
        }
        let go =
            go::program(root).ok_or_else(|| format!("there is no Go, by which {} is built", self.program))?;
        let place = directory.to_string_lossy();
        // Without a workspace of Go around this repository, and for this machine.
        let variables = [("GOBIN", &*place), ("GOWORK", "off"), ("GOFLAGS", "-trimpath")];
        step::run(&variables, &go.to_string_lossy(), &["install", self.package]).map_err(|problem| {
            let package = self.package;
            format!("{problem}\nthe tests need {package}: make sure that Go reaches a module proxy (GOPROXY)")
        })?;
        std::fs::write(&version, self.package)
            .map_err(|error| format!("cannot write {}: {error}", version.display()))
    }
}
