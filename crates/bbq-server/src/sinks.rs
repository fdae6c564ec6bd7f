//! Every kind of sink. A new kind is a crate, and a line here.
//!
//! A kind that needs much more to be built has a cargo feature, and a line in each list. The feature `full` has all of them.

use bbq_sink::{Kind, Kinds, LeftOut};

/// The kinds of this build, in the order in which help shows them.
pub static SINK_KINDS: &[&Kind] = &[
    &bbq_sink_file::FILE,
    &bbq_sink_file::STDOUT,
    &bbq_sink_forward::FORWARD,
    &bbq_sink_forward::FORWARD_TLS,
    &bbq_sink_forward::FORWARD_UNIX,
    &bbq_sink_http::HTTP,
    &bbq_sink_http::HTTPS,
    &bbq_sink_http::OTLP_HTTP,
    &bbq_sink_http::OTLP_HTTPS,
    &bbq_sink_http::GRPC,
    &bbq_sink_http::GRPCS,
    &bbq_sink_exec::EXEC,
    #[cfg(feature = "kafka")]
    &bbq_sink_kafka::KAFKA,
    #[cfg(feature = "nats")]
    &bbq_sink_nats::NATS,
    #[cfg(feature = "s3")]
    &bbq_sink_objects::S3,
    #[cfg(feature = "gcs")]
    &bbq_sink_objects::GCS,
    #[cfg(feature = "azure")]
    &bbq_sink_objects::AZURE,
    #[cfg(feature = "s3")]
    &bbq_sink_objects::OBJECTS,
    &bbq_sink::NULL,
];

/// The kinds that this build does not have.
static LEFT_OUT: &[LeftOut] = &[
    #[cfg(not(feature = "kafka"))]
    LeftOut { word: "kafka", feature: "kafka" },
    #[cfg(not(feature = "nats"))]
    LeftOut { word: "nats", feature: "nats" },
    #[cfg(not(feature = "s3"))]
    LeftOut { word: "s3", feature: "s3" },
    #[cfg(not(feature = "gcs"))]
    LeftOut { word: "gs", feature: "gcs" },
    #[cfg(not(feature = "azure"))]
    LeftOut { word: "az", feature: "azure" },
    #[cfg(not(feature = "s3"))]
    LeftOut { word: "objects", feature: "s3" },
];

/// All of both.
pub static KINDS: Kinds = Kinds { present: SINK_KINDS, left_out: LEFT_OUT };

#[cfg(test)]
mod tests {
    use bbq_spec::Values;

    use super::*;

    #[test]
    fn the_forms_of_the_interface() {
        let spec = "file:/var/log/all.log?format=json&rotate_bytes=100MiB&rotate=daily&keep=7&name=all";
        let spec = KINDS.parse(spec).unwrap();
        let target = format!("{spec:?}");
        for part in ["/var/log/all.log", "Json", "bytes: Some(104857600), daily: true, keep: Some(7)"] {
            assert!(target.contains(part), "{target}");
        }
        assert_eq!(spec.name, "all");
        assert_eq!(KINDS.parse("stdout:").unwrap().name, "stdout:");
        assert_eq!(KINDS.parse("null:").unwrap().name, "null:");
    }

    #[test]
    fn each_mistake_names_the_part_and_the_remedy() {
        for (spec, says) in [
            ("/var/log/x", "write file:/var/log/x"),
            ("elasticsearch://search:9200", "?preset=elasticsearch"),
            ("mongodb:a", "kinds: file, "),
            ("log.txt", "write file:log.txt"),
            ("gcs://b", "write gs://"),
            ("fil:/var/log/x", "did you mean \"file:PATH\"?"),
            ("file", "did you mean \"file:PATH\"?"),
            ("file:", "has no PATH"),
            ("null:x", "nothing may follow null:"),
            ("file:x?format=xml", "raw, json"),
            ("file:x?keep=3", "without rotate"),
            ("file:x?name=", "is not a name"),
            ("stdout:?rotate=daily", "unknown option \"rotate\""),
        ] {
            let error = KINDS.parse(spec).unwrap_err().to_string();
            assert!(error.contains(says), "{spec}: {error}");
        }
    }

    #[test]
    fn a_kind_that_was_left_out_is_told_with_its_feature() {
        for LeftOut { word, feature } in LEFT_OUT {
            let error = KINDS.parse(&format!("{word}://me:sesame@host/x")).unwrap_err().to_string();
            assert!(error.contains(&format!("--features {feature}")), "{error}");
            assert!(error.contains("packages of bbq have every sink"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
            assert!(SINK_KINDS.iter().all(|kind| kind.word != *word), "{word} is in both lists");
        }
    }

    #[test]
    fn every_option_of_the_lists_is_taken() {
        for kind in SINK_KINDS {
            let argument = match kind.argument {
                "" => "",
                url if url.ends_with("/SUBJECT") || url.ends_with("/TOPIC") => "//host/name",
                url if url.starts_with("//ACCOUNT/") => "//account/name",
                url if url.starts_with("//") => "//host",
                _ => "x",
            };
            for option in kind.each_option() {
                let value = match &option.values {
                    Values::Number(range) | Values::Size(range) => range.start().to_string(),
                    // Never in the text.
                    Values::Secret => continue,
                    // Files, which are read.
                    Values::Text { form: "PATH", .. } => continue,
                    // In files as well.
                    Values::Text { .. } if option.key == "profile" => continue,
                    // Their defaults are descriptions.
                    Values::Text { .. } if option.key == "endpoint" => "http://host".to_owned(),
                    Values::Text { .. } if ["stream", "region", "access_key_id"].contains(&option.key) => {
                        "S".to_owned()
                    }
                    Values::Text { .. } if option.key == "index" => "logs".to_owned(),
                    Values::Text { .. } if option.key == "labels" => "severity".to_owned(),
                    Values::Text { .. } if option.key == "proxy" => "off".to_owned(),
                    _ => option.default.to_owned(),
                };
                let more = match option.key {
                    "keep" => "&rotate=daily",
                    "index" => "&preset=elasticsearch",
                    "labels" => "&preset=loki",
                    "create" if kind.word == "nats" => "&stream=S",
                    "replicas" => "&stream=S&create=on",
                    "user" => "&password_env=PATH",
                    "sasl" => "&user=U&password_env=PATH",
                    "access_key_id" => "&secret_access_key_env=PATH",
                    _ => "",
                };
                let (argument, more) = match (kind.word, option.key) {
                    ("kafka", "create") => ("//host/logs-{host}", "&progress_topic=p"),
                    _ => (argument, more),
                };
                let text = format!("{}:{argument}?{}={value}{more}", kind.word, option.key);
                KINDS.parse(&text).unwrap();
            }
        }
    }

    #[test]
    fn a_secret_at_a_sink_that_has_none_is_not_shown() {
        for spec in [
            "https://user:sesame@host/",
            "nothing://sesame@host/?password=sesame",
            "http://user:sesame@host/",
            "http://host/a b?authorization=sesame",
            "http://user:sesame@host/?foo=bar",
            "http://user:sesame@host/?format=xml",
            "http://host/?authorisation=sesame",
            "http:host?Authorization=sesame",
            "stdout:?token=sesame",
            "null:x?token=sesame",
        ] {
            let error = KINDS.parse(spec).unwrap_err().to_string();
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
