//! If this fails, `bbq config explain` leaves a key out, or says that a value comes from elsewhere than it does.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::Command;

use bbq_server::SINK_KINDS;
use bbq_server::config::{FILE_KEYS, listen_options};

use crate::support::{BBQ, refused_start};

const FILE: &str = "\
workers = 2
drain_timeout_seconds = 5
[[listen]]
spec = \"lines+tcp://127.0.0.1:7701\"
on_full = \"drop-oldest\"
[[sink]]
spec = \"file:out.log\"
rotate = \"daily\"
keep = 3
[spool]
bytes_max = \"2GiB\"
";

/// Code and output of `bbq config explain`, in a directory with the file.
fn explain(file: &str, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("bbq.toml"), file).expect("a file");
    let mut command = Command::new(BBQ);
    command.args(["config", "explain"]).args(arguments).envs(variables.iter().copied());
    refused_start(command.current_dir(directory.path()))
}

#[test]
fn a_key_is_explained_in_full() {
    let (code, text) = explain(FILE, &["spool.bytes_max", "--config", "bbq.toml"], &[]);
    assert_eq!(
        text,
        "spool.bytes_max\n  \
         The size of all segments together, including space allocated ahead; at least 2 segments per worker.\n  \
         type        size: a number, or a text such as \"64KiB\" or \"10GB\"\n  \
         unit        bytes\n  \
         allowed     128KiB or more\n  \
         default     10GiB\n  \
         variable    BBQ_SPOOL_BYTES_MAX\n  \
         option      none\n  \
         reload      SIGHUP applies a change\n  \
         in effect   2GiB (from bbq.toml:11:13)\n\n"
    );
    assert_eq!(code, Some(0));
}

#[test]
fn programs_get_the_same_as_json() {
    let (code, text) = explain(FILE, &["--json", "spool.bytes_max", "--config", "bbq.toml"], &[]);
    let expected = serde_json::json!([{
        "key": "spool.bytes_max",
        "meaning": "the size of all segments together, including space allocated ahead; at least 2 segments per worker",
        "type": "size", "unit": "bytes", "allowed": "128KiB or more", "default": "10GiB",
        "variable": "BBQ_SPOOL_BYTES_MAX", "option": null, "reload": "applies",
        "in_effect": [{"of": null, "value": "2GiB", "from": "bbq.toml:11:13"}],
    }]);
    assert_eq!((code, serde_json::from_str(&text).ok()), (Some(0), Some(expected)), "{text}");
    let (code, text) = explain(FILE, &["--json"], &[]);
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).expect("an array");
    assert!(all.len() > FILE_KEYS.len() + listen_options().count() && code == Some(0), "{text}");
}

#[test]
fn a_kind_of_sink_has_its_options() {
    let file = format!("{FILE}[[sink]]\nspec = \"http://127.0.0.1:1/\"\nname = \"web\"\n");
    let (code, text) = explain(&file, &["--json", "sink.file", "--config", "bbq.toml"], &[]);
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).expect("an array");
    let keys: Vec<&str> = all.iter().filter_map(|key| key["key"].as_str()).collect();
    let common =
        ["sink.name", "sink.spool_bytes_max", "sink.spool_seconds_max", "sink.on_full", "sink.start"];
    let rules = ["sink.where", "sink.sample", "sink.redact", "sink.parse"];
    let own = ["sink.format", "sink.rotate_bytes", "sink.rotate", "sink.keep"];
    assert_eq!(keys, [&common[..], &rules[..], &own[..]].concat());
    assert_eq!(all[0]["in_effect"].as_array().map(Vec::len), Some(0), "that of another kind");
    let keep = all.last().expect("the last one");
    assert_eq!(keep["in_effect"][0]["value"], "3");
    assert_eq!((code, &keep["of"]), (Some(0), &serde_json::json!(["file"])));
    for (kind, default) in [("file", "raw"), ("http", "json")] {
        let (_, text) = explain(FILE, &[&format!("sink.{kind}")], &[]);
        assert!(text.contains(&format!("default     {default}\n")), "{text}");
    }
    let (code, text) = explain(FILE, &["sink.fil"], &[]);
    assert!(code == Some(2) && text.contains("did you mean \"sink.file\"?"), "{text}");
}

#[test]
fn an_option_overrides_a_variable_which_overrides_the_file_which_overrides_the_default() {
    let config = ["workers", "--config", "bbq.toml"];
    let with_option = [&config[..], &["--workers", "4"]].concat();
    let variable = [("BBQ_WORKERS", "3")];
    for (arguments, variables, says) in [
        (&with_option[..], &variable[..], "4 (from option --workers)"),
        (&config, &variable, "3 (from environment variable BBQ_WORKERS)"),
        (&config, &[], "2 (from bbq.toml:1:11)"),
        (&["workers"], &[("BBQ_CONFIG", "bbq.toml")], "2 (from bbq.toml:1:11)"),
        (&["drain_timeout_seconds"], &[], "10 (the default)"),
        (
            &["listen", "--listen", "lines+tcp://127.0.0.1:1"],
            &[],
            "lines+tcp://127.0.0.1:1 (from option --listen)",
        ),
        (&["sink"], &[("BBQ_SINK", "null:")], "null: (from environment variable BBQ_SINK)"),
        (&["sink"], &[], "file:bbq-data/out/messages.log (the default)"),
        (
            &["on_full", "--config", "bbq.toml"],
            &[],
            "lines+tcp://127.0.0.1:7701: drop-oldest (from bbq.toml:3:1)",
        ),
        (&["sink.keep", "--config", "bbq.toml"], &[], "file:out.log: 3 (from bbq.toml:6:1)"),
        (&["sink.keep"], &[], "in effect   the default: nothing sets it"),
    ] {
        let (code, text) = explain(FILE, arguments, variables);
        assert!(code == Some(0) && text.contains(says), "{arguments:?} {variables:?} {says}: {text}");
    }
}

#[test]
fn what_a_reload_does_is_told() {
    for (key, says) in [
        ("data", "a change needs an upgrade"),
        ("workers", "SIGHUP applies a change\n"),
        ("listen.backlog", "SIGHUP applies a change to new listeners"),
        ("listen.steering", "SIGHUP applies a change\n"),
    ] {
        let (_, text) = explain(FILE, &[key], &[]);
        assert!(text.contains(says), "{key}: {text}");
    }
}

#[test]
fn without_a_key_all_are_explained() {
    let (code, text) = explain(FILE, &["--config", "bbq.toml"], &[]);
    assert_eq!(code, Some(0), "{text}");
    let has = |name: &str| text.lines().any(|line| line == name);
    for key in FILE_KEYS.iter().map(|known| known.option.key) {
        assert!(has(key), "{key}: {text}");
    }
    for option in listen_options() {
        assert!(has(&format!("listen.{}", option.key)), "{}: {text}", option.key);
    }
    for option in SINK_KINDS.iter().flat_map(|kind| kind.each_option()) {
        assert!(has(&format!("sink.{}", option.key)), "{}: {text}", option.key);
    }
    assert!(has("# The spool, in the table [spool]"), "{text}");
}

#[test]
fn mistakes_are_told() {
    let (code, text) = explain(FILE, &["spool.byte_max"], &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("unknown key \"spool.byte_max\"; did you mean \"spool.bytes_max\"?"), "{text}");
    // The explanation is there, as it is what the mistake needs.
    let (code, text) = explain("workers = 0\n", &["workers", "--config", "bbq.toml"], &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("allowed     1 to 256") && text.contains("bbq.toml:1:11: workers: 0"), "{text}");
    assert!(!text.contains("in effect"), "{text}");
}
