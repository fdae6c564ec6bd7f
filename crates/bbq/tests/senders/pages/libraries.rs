//! The pages on the senders of Loki, Elasticsearch, Splunk and Graylog: their examples for curl, and those for libraries of Python.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::page::{block, put, section, spec_of};
use super::{shell, text};
use crate::support::{Setup, assert_balanced, run};

const TOKEN: &str = "6f1a4c0e9b7d52c83a10";

/// What `cargo xtask test` puts into target (`xtask/src/libraries.rs`).
fn python() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let python = target.parent().expect("target/tmp is in target").join("libraries/bin/python");
    assert!(python.exists(), "there is no {}; `cargo xtask test` provides it", python.display());
    python
}

fn setup(listen: &str) -> Setup {
    let setup = Setup::new(&[listen]).sink_query("?format=json").with(&["--workers", "1"]);
    let file = setup.path().join("tokens");
    fs::write(&file, format!("somebody {TOKEN}\n")).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("permissions");
    setup
}

/// Runs a program of Python, and returns what it printed.
fn run_python(program: &str) -> String {
    let output = run(Command::new(python()).args(["-W", "ignore", "-c", program]), b"");
    assert!(output.stderr.is_empty(), "{}", text(output.stderr));
    text(output.stdout)
}

/// Runs an example of curl and one of Python, and returns what the sink has written.
fn ran(setup: &Setup, heading: &str, python: &str, messages: u64) -> Vec<Value> {
    let server = setup.start();
    let address = setup.address(0).to_string();
    run(&mut shell(&put(&block(heading, "sh", 0), &[("127.0.0.1:7780", &address)]), setup.path()), b"");
    run_python(python);
    server.wait_delivered(messages);
    assert_eq!(server.stop(), Some(0));
    written(setup)
}

/// What the sink has written.
fn written(setup: &Setup) -> Vec<Value> {
    let written = text(setup.written());
    written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn loki() {
    let setup = setup("http+tcp://127.0.0.1:{0}");
    // It has no example on the page, as its last release is of 2019.
    let program = format!(
        "import logging, logging_loki\n\
         handler = logging_loki.LokiHandler(url='http://{}/loki/api/v1/push', tags={{'app': 'shop'}}, version='1')\n\
         logging.getLogger('orders').addHandler(handler)\n\
         logging.getLogger('orders').warning('order 4712')\n",
        setup.address(0)
    );
    let found = ran(&setup, "Loki's senders", &program, 2);
    assert_eq!(
        (&found[0]["message"], &found[0]["fields"]),
        (&json!("order 4711 took 2.5 s"), &json!({ "app": "shop" }))
    );
    assert_eq!(found[1]["message"], "order 4712");
    assert_eq!(
        (&found[1]["fields"]["app"], &found[1]["fields"]["severity"]),
        (&json!("shop"), &json!("warning"))
    );
}

#[test]
fn elasticsearch() {
    let setup = setup("http+tcp://127.0.0.1:{0}");
    let address = setup.address(0).to_string();
    let example = put(&block("Elasticsearch's senders", "python", 0), &[("127.0.0.1:7780", &address)]);
    // And what else programs call: it must not fail.
    let more = "\
        assert client.info()['version']['number'].startswith('8.')\n\
        assert client.ping() and client.cluster.health()['status'] == 'green'\n\
        client.indices.put_index_template(name='orders', index_patterns=['orders'])\n\
        assert client.indices.exists_index_template(name='orders')\n\
        client.ilm.put_lifecycle(name='orders', policy={'phases': {}})\n\
        again = [{'_op_type': 'create', '_index': 'orders', '_id': n, 'message': f'order {n}'} for n in range(3)]\n\
        assert helpers.bulk(client, again) == (3, [])\n\
        results = helpers.streaming_bulk(client, [{'_op_type': 'delete', '_index': 'a', '_id': 1}], raise_on_error=False)\n\
        assert [ok for ok, _ in results] == [False]\n\
        try:\n\
        \x20   client.search(index='orders')\n\
        \x20   raise SystemExit('it searches')\n\
        except Exception as error:\n\
        \x20   assert 'no search engine' in str(error), error\n";
    let found = ran(&setup, "Elasticsearch's senders", &format!("{example}\n{more}"), 4);
    assert_eq!(found[0]["fields"], json!({ "_index": "orders", "_id": "1" }));
    for (number, record) in found[1..].iter().enumerate() {
        assert_eq!(record["message"], json!({ "message": format!("order {number}") }).to_string());
        assert_eq!(record["fields"]["_id"], number.to_string());
    }
}

#[test]
fn splunk() {
    let listen = put(&spec_of("Splunk's senders"), &[("7780", "{0}"), ("/etc/bbq", "{dir}")]);
    let setup = setup(&listen);
    let port = setup.ports[0].to_string();
    let example = put(&block("Splunk's senders", "python", 0), &[("7780", &port)]);
    let found = ran(&setup, "Splunk's senders", &example, 2);
    let fields = json!({ "host": "web-1", "sourcetype": "shop", "team": "orders" });
    assert_eq!((&found[0]["message"], &found[0]["fields"]), (&json!("order 4711 took 2.5 s"), &fields));
    assert_eq!(
        (&found[1]["message"], &found[1]["fields"]["index"]),
        (&json!("order 4711 took 2.5 s"), &json!("main"))
    );
}

#[test]
fn graylog() {
    let setup = setup("http+tcp://127.0.0.1:{0}");
    let port = setup.ports[0].to_string();
    let example = put(&block("Graylog's senders", "python", 0), &[("7780", &port)]);
    let server = setup.start();
    let address = setup.address(0).to_string();
    let curl = put(&block("Graylog's senders", "sh", 0), &[("127.0.0.1:7780", &address)]);
    run(&mut shell(&curl, setup.path()), b"");
    server.wait_delivered(1);
    // It closes its connection without a look at the answer, so bbq may not have read the message by then, as the page says.
    server.wait_status("a message of pygelf", |status| {
        run_python(&example);
        status["ledger"]["delivered"].as_u64() >= Some(2)
    });
    assert_eq!(server.stop(), Some(0));
    let found = written(&setup);
    let fields = json!({ "host": "web-1", "level": "4", "_team": "orders" });
    assert_eq!((&found[0]["message"], &found[0]["fields"]), (&json!("order 4711 took 2.5 s"), &fields));
    assert_eq!(
        (&found[1]["message"], &found[1]["fields"]["level"]),
        (&json!("order 4711 took 2.5 s"), &json!("4"))
    );
}

/// The examples of the page for TCP and UDP, and what else the libraries can do there: chunks, compression, other classes.
#[test]
fn graylog_over_tcp_and_udp() {
    let listen = section("Graylog's senders");
    assert!(listen.contains("--listen 'gelf+tcp://127.0.0.1:12201' --listen 'gelf+udp://127.0.0.1:12201'"));
    let setup =
        Setup::new(&["gelf+tcp://127.0.0.1:{0}", "gelf+udp://127.0.0.1:{1}"]).sink_query("?format=json");
    let server = setup.start();
    for (example, port) in [(1, setup.ports[0]), (2, setup.ports[1])] {
        run_python(&put(&block("Graylog's senders", "python", example), &[("12201", &port.to_string())]));
    }
    let more = format!(
        "import logging, graypy, pygelf\n\
         tcp, udp = {}, {}\n\
         log = logging.getLogger('orders')\n\
         handlers = [pygelf.GelfUdpHandler('127.0.0.1', udp, compress=True, chunk_size=60, _team='orders'),\n\
         \x20   pygelf.GelfUdpHandler('127.0.0.1', udp, compress=False, chunk_size=60, _team='orders'),\n\
         \x20   graypy.GELFUDPHandler('127.0.0.1', udp, gelf_chunker=graypy.handler.GELFWarningChunker(60), facility='orders'),\n\
         \x20   graypy.GELFTCPHandler('127.0.0.1', tcp, facility='orders')]\n\
         for number, handler in enumerate(handlers):\n\
         \x20   log.handlers = [handler]\n\
         \x20   for message in range(5):\n\
         \x20       log.warning('handler %d message %d of this program is longer than a chunk', number, message)\n\
         \x20   handler.close()\n",
        setup.ports[0], setup.ports[1]
    );
    run_python(&more);
    assert_balanced(&server.wait_delivered(22));
    assert_eq!(server.stop(), Some(0));
    let found = written(&setup);
    let of = |message: &str| found.iter().filter(|record| record["message"] == message).collect::<Vec<_>>();
    assert!(of("order 4711 took 2.5 s").iter().all(|record| record["fields"]["level"] == "4"));
    assert_eq!(of("order 4711 took 2.5 s").len(), 2);
    for number in 0..20 {
        let (handler, message) = (number / 5, number % 5);
        let text = format!("handler {handler} message {message} of this program is longer than a chunk");
        let records = of(&text);
        assert_eq!(records.len(), 1, "{text}");
        let (field, expected) = if handler < 2 { ("_team", "orders") } else { ("facility", "orders") };
        assert_eq!(records[0]["fields"][field], expected, "{:#}", records[0]);
    }
}
