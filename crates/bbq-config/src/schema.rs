//! The JSON Schema of the configuration file, for editors.
//!
//! The server refuses everything that the schema refuses. It also refuses mistakes that a schema cannot express, such as two
//! listeners at one address.

use bbq_intake::{PROTOCOLS, listen_options, without_effect};
use bbq_read::read_options;
use bbq_sink::{Kind as SinkKind, Kinds, common_options};
use bbq_spec::{AUTO, NAME_OPTION, SpecOption, Values};
use serde_json::{Map, Value, json};

use crate::keys::FILE_KEYS;

/// A number of bytes with a unit.
const SIZE: &str = "^ *[0-9]+ *[KMGTPkmgtp]?[Ii]?[Bb]? *$";
/// The transports without datagrams (`false`) and with datagrams (`true`).
const TRANSPORTS: [(bool, &str); 2] = [(false, "tcp|unix"), (true, "udp|unixgram")];

/// The schema, in JSON Schema draft 7.
#[must_use]
pub fn schema(kinds: &Kinds) -> Value {
    let (mut keys, mut tables) = (Map::new(), Map::<String, Value>::new());
    for known in &FILE_KEYS {
        let option = &known.option;
        let (properties, key) = match option.key.split_once('.') {
            Some((table, key)) => {
                let table = tables.entry(table).or_insert_with(|| object(&Map::new(), &[]));
                (table["properties"].as_object_mut(), key)
            }
            None => (Some(&mut keys), option.key),
        };
        properties.into_iter().for_each(|properties| {
            properties.insert(key.to_owned(), described(kinds, option));
        });
    }
    keys.extend(tables);
    let mut schema = object(&keys, &[]);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("configuration of bbq serve");
    schema
}

fn object(properties: &Map<String, Value>, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn described(kinds: &Kinds, option: &SpecOption) -> Value {
    let mut schema = of_values(kinds, option.key, &option.values);
    schema["description"] =
        json!(format!("{}. Values: {}. Default: {}", option.meaning, option.values, option.default));
    schema
}

fn of_values(kinds: &Kinds, key: &str, values: &Values) -> Value {
    match values {
        Values::Words(words) => json!({"enum": words}),
        Values::Number(range) => json!({"type": "integer", "minimum": range.start(), "maximum": range.end()}),
        Values::NumberOrNever(range) => {
            json!({"anyOf": [{"const": 0}, of_values(kinds, key, &Values::Number(range.clone()))]})
        }
        Values::NumberOrAuto(range) => {
            json!({"anyOf": [{"const": AUTO}, of_values(kinds, key, &Values::Number(range.clone()))]})
        }
        Values::Size(range) => {
            json!({"anyOf": [of_values(kinds, key, &Values::Number(range.clone())), {"type": "string", "pattern": SIZE}]})
        }
        Values::Text { pattern, .. } => json!({"type": "string", "pattern": pattern}),
        Values::Specs(range) => {
            let specs = match key {
                "listen" => listeners(kinds),
                "read" => of_spec(
                    kinds,
                    "^(file:.|containers:|journal:)",
                    [&NAME_OPTION].into_iter().chain(read_options()),
                )
                .to_vec(),
                _ => sinks(kinds),
            };
            json!({"type": "array", "minItems": range.start(), "maxItems": range.end(), "items": {"anyOf": specs}})
        }
        Values::Fraction => json!({"anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "string", "pattern": "^[0-9.eE-]+$"},
        ]}),
        Values::Rewrites => {
            let text = json!({"type": "string", "pattern": "^\\s*s."});
            let table = json!({
                "type": "object",
                "properties": {"pattern": {"type": "string"}, "with": {"type": "string"}},
                "required": ["pattern", "with"],
                "additionalProperties": false,
            });
            json!({"anyOf": [text, {"type": "array", "minItems": 1, "items": {"anyOf": [text, table]}}]})
        }
        Values::Secret => json!({"type": "string", "pattern": "."}),
    }
}

/// A listener of each protocol, with connections and with datagrams.
fn listeners(kinds: &Kinds) -> Vec<Value> {
    let mut specs = Vec::new();
    for protocol in PROTOCOLS {
        for (is_datagram, transports) in TRANSPORTS {
            if is_datagram && !protocol.has_datagrams {
                continue;
            }
            let has_effect = |option: &&SpecOption| {
                without_effect(protocol, is_datagram).all(|(without, _)| without != option.key)
            };
            let pattern = format!("^{protocol}\\+({transports})://.");
            let options = listen_options().filter(has_effect);
            specs.extend(of_spec(kinds, &pattern, [&NAME_OPTION].into_iter().chain(options)));
        }
    }
    specs
}

/// A sink of each kind.
fn sinks(kinds: &Kinds) -> Vec<Value> {
    let pattern = |word: &str| format!("^{}:", word.replace('+', "\\+"));
    let options = |kind: &SinkKind| common_options().chain(kind.each_option());
    kinds.present.iter().flat_map(|kind| of_spec(kinds, &pattern(kind.word), options(kind))).collect()
}

/// A SPEC as a text, and as a table with its options.
fn of_spec(
    kinds: &Kinds,
    pattern: &str,
    options: impl IntoIterator<Item = &'static SpecOption>,
) -> [Value; 2] {
    let text = json!({"type": "string", "pattern": pattern});
    let mut properties = Map::from_iter([("spec".to_owned(), text.clone())]);
    for option in options {
        properties.extend(option.words().into_iter().map(|word| (word, described(kinds, option))));
    }
    [text, object(&properties, &["spec"])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds_of_tests::KINDS;

    #[test]
    fn a_table_has_the_options_of_its_kind() {
        let schema = schema(&KINDS);
        let kind = |list: &str, pattern: &str| {
            let kinds = schema["properties"][list]["items"]["anyOf"].as_array().unwrap().iter();
            let mut kinds = kinds.filter(|kind| kind["properties"]["spec"]["pattern"] == pattern);
            kinds.next().unwrap()["properties"].as_object().unwrap().clone()
        };
        assert!(
            kind("sink", "^file:").contains_key("rotate") && !kind("sink", "^stdout:").contains_key("rotate")
        );
        assert!(kind("listen", r"^lines\+(tcp|unix)://.").contains_key("backlog"));
        assert!(!kind("listen", r"^lines\+(udp|unixgram)://.").contains_key("backlog"));
        assert_eq!(schema["properties"]["spool"]["properties"]["flush_interval_ms"]["maximum"], 10_000);
        // Each protocol with connections, and some with datagrams; each as a text and as a table.
        let forms = PROTOCOLS.iter().map(|protocol| 2 * (1 + usize::from(protocol.has_datagrams)));
        let listeners = schema["properties"]["listen"]["items"]["anyOf"].as_array().unwrap();
        assert_eq!(listeners.len(), forms.sum::<usize>());
    }
}
