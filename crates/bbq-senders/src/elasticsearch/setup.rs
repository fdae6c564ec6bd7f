//! What programs ask of Elasticsearch before they write, and what they set up: templates, policies, pipelines, data streams.
//!
//! Whatever they ask for is there, so that they go on. What they set up has no effect: it belongs to the search engine behind the queue, where
//! they can set it up beforehand.

use serde_json::{Map, Value, json};

use super::{PRODUCT, VERSION};
use crate::answer::Answer;

/// Answers a question, or a request that sets something up. `host` is the header `Host`: a client that asks for the nodes of the cluster
/// goes on with the one that it knows.
#[must_use]
pub fn setup(is_question: bool, path: &str, host: &str) -> Answer {
    let mut words = path.trim_matches('/').split('/');
    let first = words.next().unwrap_or_default();
    let rest: Vec<String> = words.map(crate::url::decoded).collect();
    let body = match (first, is_question) {
        ("", _) => info(),
        ("_license", true) => json!({ "license": license() }),
        ("_xpack", true) => xpack(),
        ("_cluster", true) => cluster(rest.first().map(String::as_str)),
        ("_nodes", true) => nodes(host),
        (_, false) => json!({ "acknowledged": true }),
        (kind, true) => named(kind, rest.last().map_or("", String::as_str)),
    };
    Answer { headers: PRODUCT, ..Answer::json(200, &body) }
}

fn info() -> Value {
    json!({
        "name": "bbq",
        "cluster_name": "bbq",
        "cluster_uuid": "bbq-is-a-queue-for-logs",
        "version": {
            "number": VERSION,
            "build_flavor": "default",
            "build_type": "tar",
            "build_hash": "bbq",
            "build_date": "2026-01-01T00:00:00.000000000Z",
            "build_snapshot": false,
            "lucene_version": "9.12.0",
            "minimum_wire_compatibility_version": "7.17.0",
            "minimum_index_compatibility_version": "7.0.0"
        },
        // The clients of 7.14 and later 7.x compare it.
        "tagline": "You Know, for Search",
        "bbq": "a queue and no search engine: POST a message to /, lines to /ndjson, OTLP logs to /v1/logs, documents to /_bulk"
    })
}

fn license() -> Value {
    json!({ "status": "active", "uid": "bbq", "type": "basic", "mode": "basic", "issue_date_in_millis": 0, "max_nodes": 1000 })
}

fn xpack() -> Value {
    let on = json!({ "available": true, "enabled": true });
    json!({ "license": license(), "features": { "ilm": on, "data_streams": on, "security": on }, "tagline": "" })
}

fn cluster(word: Option<&str>) -> Value {
    match word {
        Some("settings") => json!({ "persistent": {}, "transient": {}, "defaults": {} }),
        _ => json!({
            "cluster_name": "bbq",
            "status": "green",
            "timed_out": false,
            "number_of_nodes": 1,
            "number_of_data_nodes": 1,
            "active_primary_shards": 1,
            "active_shards": 1,
            "relocating_shards": 0,
            "initializing_shards": 0,
            "unassigned_shards": 0,
            "active_shards_percent_as_number": 100.0
        }),
    }
}

fn nodes(host: &str) -> Value {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { host.to_owned() } else { format!("{host}:80") };
    json!({
        "_nodes": { "total": 1, "successful": 1, "failed": 0 },
        "cluster_name": "bbq",
        "nodes": { "bbq": {
            "name": "bbq",
            "version": VERSION,
            "roles": ["data", "ingest", "master"],
            "http": { "bound_address": [address.clone()], "publish_address": address }
        } }
    })
}

/// What is there by this name; without a name, or with a pattern, nothing is.
fn named(kind: &str, name: &str) -> Value {
    let is_name = !name.is_empty() && !name.contains(['*', ',']) && !name.starts_with('_');
    let list = |key: &str, value: Value| json!({ key: if is_name { vec![value] } else { Vec::new() } });
    let by_name = |value: Value| {
        let found = is_name.then(|| (name.to_owned(), value));
        Value::Object(found.into_iter().collect::<Map<String, Value>>())
    };
    match kind {
        "_index_template" => list(
            "index_templates",
            json!({ "name": name, "index_template": { "index_patterns": [name], "template": {}, "composed_of": [], "data_stream": {} } }),
        ),
        "_component_template" => {
            list("component_templates", json!({ "name": name, "component_template": { "template": {} } }))
        }
        "_data_stream" => list(
            "data_streams",
            json!({
                "name": name, "timestamp_field": { "name": "@timestamp" }, "indices": [], "generation": 1, "status": "GREEN", "template": name
            }),
        ),
        "_template" => by_name(
            json!({ "order": 0, "index_patterns": [name], "settings": {}, "mappings": {}, "aliases": {} }),
        ),
        "_ilm" => by_name(json!({ "version": 1, "policy": { "phases": {} } })),
        "_ingest" => by_name(json!({ "processors": [] })),
        "_alias" => by_name(json!({ "aliases": { name: { "is_write_index": true } } })),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str) -> Value {
        let answer = setup(true, path, "logs.example:9200");
        assert_eq!((answer.status, answer.headers), (200, PRODUCT));
        serde_json::from_slice(&answer.body).unwrap()
    }

    #[test]
    fn what_is_asked_for_is_there() {
        assert_eq!(asked("/")["version"]["number"], VERSION);
        assert_eq!(asked("/_license")["license"]["status"], "active");
        assert_eq!(asked("/_cluster/health")["status"], "green");
        let address = &asked("/_nodes/_all/http")["nodes"]["bbq"]["http"]["publish_address"];
        assert_eq!(address, "logs.example:9200");
        assert_eq!(asked("/_index_template/logs%2Da")["index_templates"][0]["name"], "logs-a");
        assert_eq!(asked("/_index_template/logs*")["index_templates"], json!([]));
        assert_eq!(asked("/_data_stream")["data_streams"], json!([]));
        assert!(asked("/_ilm/policy/filebeat")["filebeat"]["policy"].is_object());
        assert!(asked("/_template/a%22b")["a\"b"].is_object());
        let put = setup(false, "/_ilm/policy/filebeat", "");
        assert_eq!(serde_json::from_slice::<Value>(&put.body).unwrap(), json!({ "acknowledged": true }));
    }

    #[test]
    fn the_address_of_the_node_has_a_port() {
        for (host, expected) in
            [("a", "a:80"), ("a:1", "a:1"), ("[::1]", "[::1]:80"), ("[::1]:5", "[::1]:5"), ("", ":80")]
        {
            assert_eq!(nodes(host)["nodes"]["bbq"]["http"]["publish_address"], expected);
        }
    }
}
