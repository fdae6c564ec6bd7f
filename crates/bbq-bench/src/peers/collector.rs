//! The OpenTelemetry Collector, with its queue in files: it answers when a request is synced there.

use std::process::Command;

use anyhow::Context;

use super::peer::{Peer, Transport, configure, output};
use super::programs::find;
use crate::address;
use crate::settings::Settings;

/// Built by `bench/peers/install`, of the modules in `bench/peers/collector`.
pub(crate) const PROGRAM: &str = "otelcol-bench";
/// Requests that wait for the exporter; more than come in a sample, so that none is refused.
const QUEUE_REQUESTS: u32 = 1_000_000;

/// Starts it. It writes the texts of log records to its file.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let place = settings.directory.display();
    let output = output(settings);
    let configuration = format!(
        "extensions:\n  file_storage: {{ directory: \"{place}/storage\", create_directory: true, fsync: true }}\n\
         receivers:\n  otlp: {{ protocols: {{ http: {{ endpoint: \"{address}\" }} }} }}\n\
         exporters:\n  lines:\n    path: \"{}\"\n    \
         sending_queue: {{ storage: file_storage, sizer: requests, queue_size: {QUEUE_REQUESTS} }}\n\
         service:\n  extensions: [file_storage]\n  \
         telemetry: {{ logs: {{ level: warn }}, metrics: {{ level: none }} }}\n  \
         pipelines: {{ logs: {{ receivers: [otlp], exporters: [lines] }} }}\n",
        output.display()
    );
    let file = configure(settings, "collector.yaml", &configuration)?;
    let mut command = Command::new(find(PROGRAM).with_context(|| format!("{PROGRAM} is not installed"))?);
    command.arg("--config").arg(&file);
    Peer::start(PROGRAM, &command, settings, address, Transport::Tcp)
}
