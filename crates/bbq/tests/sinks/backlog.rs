//! If this fails, a sink whose destination is away stops the other sinks and the listeners although it has limits of its own, or gives up more
//! than they say, or what it has given up is not counted; or a new sink begins somewhere else than its SPEC says.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::http_server::{response, serve};
use crate::support::{Server, Setup, assert_balanced, free_ports, pause};

/// Small, so that a few megabytes fill it.
const CONFIG: &str = "drain_timeout_seconds = 1\n[spool]\nsegment_bytes = \"64KiB\"\nbytes_max = \"4MiB\"\n";
/// 100 bytes with the line feed.
fn line(number: u64) -> String {
    format!("{number:099}")
}

/// A file that gets everything, and a server at `to`, if that is one.
fn setup(to: &str, query: &str, workers: &str) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config(CONFIG).with(&["--workers", workers]);
    setup.set_sinks(&["file:{dir}/archive.log", &format!("http://{to}/ndjson?format=raw&name=live&{query}")]);
    setup
}

fn archived(setup: &Setup) -> Vec<String> {
    let text = fs::read_to_string(setup.path().join("archive.log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Sends lines over one connection.
fn send(server: &Server<'_>, numbers: std::ops::Range<u64>) {
    let text: String = numbers.map(|number| line(number) + "\n").collect();
    server.send(0, text.as_bytes());
}

fn live(status: &Value) -> &Value {
    &status["sinks"][1]
}

fn wait_archive(server: &Server<'_>, lines: u64) {
    server.wait_status("the archive", |status| status["sinks"][0]["delivered"] == lines);
}

fn dropped(status: &Value, reason: &str) -> u64 {
    live(status)["dropped"][reason].as_u64().unwrap_or(0)
}

/// Five times what the spool holds, to a sink that nobody serves.
#[test]
fn a_destination_that_is_away_stops_nothing_else() {
    const LINES: u64 = 200_000;
    let nobody = format!("127.0.0.1:{}", free_ports(1)[0]);
    for (query, max) in [("spool_bytes_max=1MiB", 1024 * 1024), ("on_full=drop-oldest", 3 * 1024 * 1024)] {
        let setup = setup(&nobody, query, "2");
        let server = setup.start();
        send(&server, 0..LINES);
        wait_archive(&server, LINES);
        let expected: Vec<String> = (0..LINES).map(line).collect();
        assert!(archived(&setup) == expected, "{query}: the archive has everything, in order");
        let status = server.wait_status("what is over the limit is given up", |status| {
            let queued = live(status)["queued"].as_u64().unwrap_or(u64::MAX);
            // A line has some bytes of its own, and an eighth more is on its way.
            queued * 100 < max * 9 / 8 && dropped(status, "over_limit") + queued == LINES
        });
        assert!(live(&status)["queued"].as_u64() > Some(max / 100 / 4), "{query}: not more is given up");
        assert_balanced(&status);
        server.wait_log("messages dropped");
        let (code, text) = server.health();
        assert!(code == 503 && text.contains("over_spool_limit"), "{text}");
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
}

/// What is left when the destination comes back are the last messages, each once and in order.
#[test]
fn a_destination_that_comes_back_gets_the_last_messages() {
    const LINES: u64 = 60_000;
    for is_killed in [false, true] {
        let port = free_ports(1)[0];
        let setup = setup(&format!("127.0.0.1:{port}"), "spool_bytes_max=512KiB", "1");
        let mut server = setup.start();
        send(&server, 0..LINES);
        wait_archive(&server, LINES);
        server.wait_status("some are given up", |status| dropped(status, "over_limit") > LINES / 2);
        if is_killed {
            server.kill();
            server = setup.start();
        }
        let mut receiver = Setup::new(&[&format!("http+tcp://127.0.0.1:{port}")]);
        receiver.set_sinks(&["file:{dir}/out.log"]);
        let to = receiver.start();
        let status = server.wait_status("nothing queued", |status| live(status)["queued"] == 0);
        assert_balanced(&status);
        let (given_up, delivered) =
            (dropped(&status, "over_limit"), live(&status)["delivered"].as_u64().expect("a count"));
        assert_eq!(given_up + delivered, LINES, "{status:#}");
        assert!(delivered > 500, "{status:#}");
        to.wait_status("all are there", |status| status["ledger"]["delivered"].as_u64() >= Some(delivered));
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        assert_eq!(to.stop(), Some(0), "{}", receiver.log());
    }
}

/// It takes connections and answers nothing.
#[test]
fn a_destination_that_hangs_gets_no_more_time_for_what_is_over_the_limit() {
    const LINES: u64 = 100_000;
    let (address, bodies) = serve(|_| None);
    let setup = setup(&address, "on_full=drop-oldest&timeout_seconds=2", "1");
    let server = setup.start();
    send(&server, 0..LINES);
    wait_archive(&server, LINES);
    let status = server.wait_status("some are given up", |status| dropped(status, "over_limit") > LINES / 2);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    drop(bodies);
}

#[test]
fn what_waits_too_long_is_given_up_and_what_comes_later_is_delivered() {
    let is_back = Arc::new(AtomicBool::new(false));
    let is_back_now = Arc::clone(&is_back);
    let (address, bodies) = serve(move |_| {
        Some(response(if is_back_now.load(Ordering::Relaxed) {
            "204 No Content"
        } else {
            "503 Service Unavailable"
        }))
    });
    let setup = setup(&address, "spool_seconds_max=5", "1");
    let server = setup.start();
    send(&server, 0..1000);
    let status =
        server.wait_status("the old ones are given up", |status| dropped(status, "over_age") == 1000);
    assert_balanced(&status);
    is_back.store(true, Ordering::Relaxed);
    send(&server, 1000..1010);
    while bodies.recv().expect("it serves") != (1000..1010).map(|n| line(n) + "\n").collect::<String>() {}
    let status = server.wait_status("the new ones", |status| live(status)["queued"] == 0);
    assert_eq!((live(&status)["delivered"].as_u64(), dropped(&status, "over_age")), (Some(10), 1000));
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn a_new_sink_begins_where_its_spec_says() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config(CONFIG).with(&["--workers", "1"]);
    let server = setup.start();
    send(&server, 0..100);
    server.wait_delivered(100);
    assert_eq!(server.stop(), Some(0));
    // The time has no fraction: what came before was received in an earlier second.
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let earlier = now();
    while now() == earlier {
        pause();
    }
    let time = std::process::Command::new("date")
        .args(["--utc", "--date", &format!("@{}", now()), "+%Y-%m-%dT%H:%M:%SZ"])
        .output()
        .expect("date runs");
    let time = String::from_utf8(time.stdout).expect("text");
    let setup = setup.with(&[
        "--sink",
        "file:{dir}/all.log",
        "--sink",
        "file:{dir}/end.log?start=end",
        "--sink",
        &format!("file:{{dir}}/time.log?start={}", time.trim()),
    ]);
    for run in 0..2 {
        let server = setup.start();
        let first = 100 + run * 10;
        send(&server, first..first + 10);
        let status = server.wait_status("all", |status| {
            status["sinks"].as_array().is_some_and(|sinks| sinks.iter().all(|sink| sink["queued"] == 0))
                && status["ledger"]["received"] == first + 10
        });
        assert_balanced(&status);
        for (name, begin, before) in [("all", 0, None), ("end", 100, Some(100)), ("time", 100, Some(100))] {
            let written = fs::read_to_string(setup.path().join(format!("{name}.log"))).expect("a file");
            let expected: Vec<String> = (begin..first + 10).map(line).collect();
            assert!(written.lines().eq(expected), "{name} begins at {begin}");
            let sinks = status["sinks"].as_array().expect("sinks");
            let sink = sinks.iter().find(|sink| sink["name"].as_str().is_some_and(|of| of.contains(name)));
            let counted = sink.and_then(|sink| sink["dropped"]["before-sink"].as_u64());
            assert_eq!(counted, before, "{name}: {status:#}");
        }
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
}
