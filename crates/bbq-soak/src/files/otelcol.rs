//! The filelog of an OpenTelemetry Collector, with its positions in `file_storage`, and the exporter to files.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::beside::Other;
use super::kind::Kind;

/// As for rsyslog: compressed files and copies are not read.
fn pattern(kind: Kind) -> &'static str {
    match kind {
        Kind::Rename | Kind::Compress => "*.log*[0-9g]",
        Kind::Delete | Kind::CopyTruncate => "*.log",
    }
}

pub(super) fn new(program: &Path, directory: &Path, logs: &Path) -> Result<Other> {
    let own = directory.join("otelcol");
    fs::create_dir_all(own.join("state"))?;
    fs::create_dir_all(own.join("out"))?;
    let program = fs::canonicalize(program)
        .with_context(|| format!("{}: build a Collector with filelog first", program.display()))?;
    let configuration = own.join("config.yaml");
    fs::write(&configuration, text(&own, logs).to_string())?;
    let command = move || {
        let mut command = Command::new(&program);
        command.arg("--config").arg(format!("file:{}", configuration.display()));
        command
    };
    Ok(Other::new("OpenTelemetry Collector", &own, logs, command, texts))
}

/// JSON is YAML.
fn text(own: &Path, logs: &Path) -> Value {
    let include: Vec<String> = Kind::ALL
        .iter()
        .map(|kind| logs.join(kind.name()).join(pattern(*kind)).display().to_string())
        .collect();
    json!({
        "extensions": { "file_storage": { "directory": own.join("state"), "fsync": true } },
        "receivers": { "file_log": {
            "include": include,
            "start_at": "beginning",
            "storage": "file_storage",
            "retry_on_failure": { "enabled": true },
        } },
        "exporters": { "file": { "path": own.join("out/messages.log"), "append": true } },
        "service": {
            "extensions": ["file_storage"],
            "telemetry": { "metrics": { "level": "none" } },
            "pipelines": { "logs": { "receivers": ["file_log"], "exporters": ["file"] } },
        },
    })
}

/// A line is a request with many records.
fn texts(line: &[u8], see: &mut dyn FnMut(&[u8])) {
    let Ok(request) = serde_json::from_slice::<Value>(line) else { return see(line) };
    fn each<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
        value[field].as_array().into_iter().flatten()
    }
    for resource in each(&request, "resourceLogs") {
        for scope in each(resource, "scopeLogs") {
            for record in each(scope, "logRecords") {
                see(record["body"]["stringValue"].as_str().unwrap_or_default().as_bytes());
            }
        }
    }
}
