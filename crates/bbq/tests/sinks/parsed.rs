//! If this fails, what `parse` finds in messages is missing in the JSON of a sink, is that of another message, or changes the message.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};

use crate::http_server::{response, serve};
use crate::support::{BBQ, Setup, assert_balanced, free_ports};

/// The messages that a sink has written, with what was found in each.
fn found(setup: &Setup, file: &str) -> Vec<(String, Value)> {
    let text = fs::read_to_string(setup.path().join(file)).expect("a file");
    let of_line = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        (line["message"].as_str().expect("a message").to_owned(), line["parsed"].clone())
    };
    text.lines().map(of_line).collect()
}

#[test]
fn the_parse_of_a_listener_holds_at_sinks_that_have_none() {
    let mut setup = Setup::new(&[
        "lines+tcp://127.0.0.1:{0}?name=app&parse=logfmt",
        "lines+tcp://127.0.0.1:{1}?name=other",
        "syslog+tcp://127.0.0.1:{2}?name=web&parse=json&where=has(parsed.n)",
    ])
    .with(&["--workers", "1"]);
    setup.set_sinks(&[
        "file:{dir}/all.json?name=all&format=json&where=!message.contains('left out')",
        "file:{dir}/own.json?name=own&format=json&parse=/^(?<first>[a-z]+)/",
        "file:{dir}/raw.log?name=raw",
    ]);
    let server = setup.start();
    let messages = [
        "level=warn text=\"a \\\"b\\\"\" level=x",
        "level=info",
        "<38>Oct 11 22:14:15 web app: {\"n\":[7]}",
        "left out=1",
    ];
    for (delivered, (listener, message)) in (1..).zip([0, 1, 2, 0].into_iter().zip(messages)) {
        server.send(listener, format!("{message}\n").as_bytes());
        server.wait_delivered_by(2, delivered);
    }
    server.send(2, b"<38>Oct 11 22:14:15 web app: {\"m\":1}\n");
    let status = server.wait_status("the last one is left out", |status| {
        status["listeners"][2]["ledger"]["filtered"] == 1
            && [3, 4, 4].iter().enumerate().all(|(sink, count)| status["sinks"][sink]["delivered"] == *count)
    });
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let pairs = json!({ "level": "warn", "text": "a \"b\"" });
    let expected = [pairs, Value::Null, json!({ "n": [7] })];
    let all: Vec<_> = messages[..3].iter().map(|message| (*message).to_owned()).zip(expected).collect();
    assert_eq!(found(&setup, "all.json"), all);
    let own: Vec<Value> = found(&setup, "own.json").into_iter().map(|(_, parsed)| parsed).collect();
    let first = |word: &str| json!({ "first": word });
    assert_eq!(own, [first("level"), first("level"), Value::Null, first("left")]);
    assert_eq!(fs::read_to_string(setup.path().join("raw.log")).expect("a file"), messages.join("\n") + "\n");
}

#[test]
fn the_where_of_a_sink_knows_what_a_listener_parses() {
    let mut setup = Setup::new(&[
        "lines+tcp://127.0.0.1:{0}?name=app&parse=logfmt",
        "lines+tcp://127.0.0.1:{1}?name=other",
    ]);
    setup.set_sinks(&["file:{dir}/warn.log?name=warn&where=has(parsed.level) && parsed.level == 'warn'"]);
    let server = setup.start();
    server.send(0, b"level=warn n=1\nlevel=info n=2\n");
    server.send(1, b"level=warn n=3\n");
    let status = server.wait_status("all are judged", |status| {
        let sink = &status["sinks"][0];
        sink["delivered"] == 1 && sink["filtered"] == 2
    });
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(fs::read_to_string(setup.path().join("warn.log")).expect("a file"), "level=warn n=1\n");
}

#[test]
fn what_waits_for_a_sink_keeps_the_parse_that_it_was_received_with() {
    let mut setup = Setup::new(&[]).with(&["--config", "{dir}/bbq.toml", "--workers", "1"]);
    setup.set_sinks(&[]);
    let [listener, nobody] = free_ports(2)[..] else { panic!("two ports") };
    let config = |parse: &str, destination: &str| {
        let text = format!(
            "[[listen]]\nspec = \"lines+tcp://127.0.0.1:{listener}\"\nname = \"in\"\n{parse}\n\
             [[sink]]\nspec = \"http://{destination}/\"\nname = \"out\"\nformat = \"json\"\n"
        );
        fs::write(setup.path().join("bbq.toml"), text).expect("a file");
    };
    for (count, parse) in (1..).zip(["parse = \"json\"", "", "parse = '/(?<digit>[0-9])/'"]) {
        config(parse, &format!("127.0.0.1:{nobody}"));
        let server = setup.start();
        let mut stream = TcpStream::connect(("127.0.0.1", listener)).expect("it listens");
        stream.write_all(b"{\"n\":1}\n").expect("it reads");
        server.wait_status("it is on disk", |status| status["spool"]["lanes"][0]["records"] == count);
        server.kill();
    }
    let (address, bodies) = serve(|_| Some(response("200 OK")));
    config("", &address);
    let server = setup.start();
    server.wait_delivered(3);
    let bodies: String = bodies.try_iter().collect();
    let lines = bodies.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let parsed: Vec<Value> = lines.map(|line| line["parsed"].clone()).collect();
    assert_eq!(parsed, [json!({ "n": 1 }), Value::Null, json!({ "digit": "1" })]);
}

#[test]
fn a_name_with_a_field_that_nothing_finds_is_refused() {
    let setup = Setup::new(&[]);
    let path = setup.path().join("bbq.toml");
    let by_index = "http://host/_bulk?preset=elasticsearch&index=logs-{parsed.team}";
    let by_where = "null:?where=parsed.team == \"a\"";
    for (sink, options, parse, code) in [
        (by_index, "", "", 2),
        (by_index, "", "&parse=json", 0),
        (by_index, "parse = 'syslog'", "", 2),
        (by_index, "parse = 'logfmt'", "", 0),
        (by_index, "parse = 'logfmt'", "&parse=syslog", 2),
        (by_where, "", "", 2),
        (by_where, "parse = 'syslog'", "", 2),
        (by_where, "parse = 'logfmt'", "", 0),
    ] {
        let listener = format!("[[listen]]\nspec = 'lines+tcp://127.0.0.1:1'\n{options}\n");
        fs::write(&path, format!("{listener}[[sink]]\nspec = '{sink}{parse}'\n")).expect("a file");
        let config = ["config", "explain", "sink", "--config"];
        let output = Command::new(BBQ).args(config).arg(&path).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{options} {parse}: {said}");
        let why = "names a field as parsed, and nothing finds fields; write parse = \"json\"";
        assert_eq!(code == 2, said.contains(why), "{options} {parse}: {said}");
    }
}
