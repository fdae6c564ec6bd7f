//! The YAML of the page, as Python reads it.

use std::process::Command;

use serde_json::Value;

use super::page;
use crate::support::run;

const SCRIPT: &str = "import json, sys, yaml\njson.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)\n";

/// The documents of a text.
pub(super) fn documents(text: &str) -> Vec<Value> {
    // Debian's Python, which has Debian's python3-yaml.
    let output = run(Command::new("/usr/bin/python3").args(["-c", SCRIPT]), text.as_bytes());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The documents of the blocks of a section, a list for each block.
pub(super) fn of_section(heading: &str) -> Vec<Vec<Value>> {
    page::blocks(heading, "yaml").iter().map(|block| documents(block)).collect()
}

/// These configurations are not run here: their senders are not in Debian. Each sends to an address and a path of bbq's.
#[test]
fn configurations_of_other_senders_name_a_listener_of_bbq_by_default() {
    let http = "127.0.0.1:7780";
    let collector = of_section("OpenTelemetry Collector");
    assert_eq!(collector[0][0]["exporters"]["otlp_grpc"]["endpoint"], http);
    assert_eq!(collector[1][0]["exporters"]["otlp_http"]["endpoint"], format!("http://{http}"));
    let mut fluent_bit = Vec::new();
    let blocks = of_section("Fluent Bit");
    // The complete configuration is the one that was run. Its chunks are on disk, so it has no limit of memory.
    for part in ["inputs", "outputs"] {
        let [smallest, complete] = [0, 1].map(|index: usize| &blocks[index][0]["pipeline"][part][0]);
        let held = smallest.as_object().expect("an object").iter().filter(|(key, _)| *key != "mem_buf_limit");
        for (key, value) in held {
            assert_eq!(&complete[key], value, "{key} of the smallest configuration");
        }
    }
    for block in blocks {
        let output = &block[0]["pipeline"]["outputs"][0];
        let path = output["logs_uri"].as_str().or(output["uri"].as_str()).unwrap_or_default();
        let [host, port] = ["host", "port"].map(|key| output[key].to_string().replace('"', ""));
        assert_eq!(format!("{host}:{port}"), http);
        assert_eq!(output["retry_limit"], "no_limits");
        fluent_bit.push(path.to_owned());
    }
    assert_eq!(fluent_bit, ["/v1/logs", "/v1/logs", "/ndjson"]);
    let vector = of_section("Vector");
    let [lines, logs] = [0, 1].map(|index| &vector[index][0]["sinks"]["bbq"]);
    assert_eq!(lines["uri"], format!("http://{http}/ndjson"));
    assert_eq!(logs["protocol"]["uri"], format!("http://{http}/v1/logs"));
    let defaults = bbq_server::config::FILE_KEYS.iter().find(|known| known.option.key == "listen");
    assert!(defaults.is_some_and(|known| known.option.default.contains(http)), "{http} is no default");
}
