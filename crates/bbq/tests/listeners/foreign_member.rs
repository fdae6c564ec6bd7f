//! If this fails, another process takes a share of this server's messages, and nothing shows that they are missing; or the server
//! reports another process that does not exist.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::time::{Duration, Instant};

use crate::support::stranger::Stranger;
use crate::support::{Server, Setup};
use serde_json::{Value, json};

/// The report must come within this time. The server checks every 2 s; the rest is for a busy machine.
const REPORTED_WITHIN: Duration = Duration::from_secs(30);

fn foreign(status: &Value) -> &Vec<Value> {
    status["listeners"][0]["foreign"].as_array().expect("foreign")
}

fn comes_and_goes(transport: &str) {
    let spec = format!("lines+{transport}://127.0.0.1:{{0}}?distribution=reuseport");
    let setup = Setup::new(&[&spec]).with(&["--workers", "2"]);
    let server = setup.start();
    let status = server.status();
    assert_eq!((foreign(&status).len(), &status["problems"]), (0, &json!([])), "{status:#}");

    let stranger = Stranger::joins(transport, setup.address(0));
    let since = Instant::now();
    let status = server.wait_status("the stranger", |status| !foreign(status).is_empty());
    let took = since.elapsed();
    assert!(took < REPORTED_WITHIN, "reported after {took:?}");
    assert_is_named(&server, &status, &stranger);
    let (code, text) = server.health();
    assert!(code == 503 && text.contains(&stranger.pid().to_string()), "{text}");

    let pid = stranger.pid();
    stranger.leaves();
    // The two are read one after the other, and the process may end in between.
    server.wait_status("its end", |status| foreign(status).is_empty() && status["problems"] == json!([]));
    server.wait_log("the other process no longer listens at this address");
    let log = setup.log();
    let named = |level: &str| {
        log.lines().filter(|line| line.contains(level) && line.contains(&format!("pid={pid}"))).count()
    };
    assert_eq!(
        (named("WARN"), named("INFO")),
        (1, 1),
        "told once that it came, and once that it went: {log}"
    );
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

fn assert_is_named(server: &Server<'_>, status: &Value, stranger: &Stranger) {
    let member = &foreign(status)[0];
    assert_eq!(member["pid"], stranger.pid(), "{status:#}");
    assert!(member["command"].as_str().is_some_and(|command| command.starts_with("python")), "{status:#}");
    assert!(member["inode"].as_u64().is_some_and(|inode| inode > 0), "{status:#}");
    assert_eq!(foreign(status).len(), 1, "{status:#}");
    let problems = status["problems"].as_array().expect("problems");
    assert_eq!(status["troubles"], status["problems"], "the name of earlier versions");
    let problem = problems.iter().find_map(Value::as_str).expect("a problem");
    let spec = server.setup.fill("127.0.0.1:{0}");
    assert!(problem.contains(&spec) && problem.contains(&format!("pid {}", stranger.pid())), "{problem}");
}

#[test]
fn who_joins_a_tcp_listener_is_named_and_forgotten_when_it_goes() {
    comes_and_goes("tcp");
}

#[test]
fn who_joins_a_udp_listener_is_named_and_forgotten_when_it_goes() {
    comes_and_goes("udp");
}
