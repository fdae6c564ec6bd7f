//! If this fails, a group with many messages that a server refuses does not end: the sink waits longer and longer although some of them are
//! settled, or each reload, stop or kill begins with the first of them again.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::http::{dead_letters, poster};
use crate::http_server::{response, serve};
use crate::support::{PATIENCE, Server, Setup, assert_balanced, pause};

#[test]
fn a_server_that_fails_now_and_then_gets_a_group_with_refused_messages() {
    let mut requests = 0;
    let (address, bodies) = serve(move |body| {
        requests += 1;
        Some(response(match body {
            _ if requests % 10 == 0 => "503 Service Unavailable",
            _ if body.contains("bad") => "400 Bad Request",
            _ => "204 No Content",
        }))
    });
    let setup = poster(&address, "/?format=raw").with(&["--workers", "1"]);
    let server = setup.start();
    let word = |number: usize| if number % 15 == 14 { "bad" } else { "good" };
    let text: String = (0..600).map(|number| format!("{} {number}\n", word(number))).collect();
    server.send(0, text.as_bytes());
    let status = server.wait_status("settled", |status| {
        status["ledger"]["received"] == 600 && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"]["refused"], 40);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(dead_letters(&setup).len(), 40);
    drop(bodies);
}

/// How a run of the server ends in the middle of a group.
type End = for<'a> fn(Server<'a>, &'a Setup) -> Server<'a>;

fn reload<'a>(server: Server<'a>, setup: &'a Setup) -> Server<'a> {
    fs::write(setup.path().join("bbq.toml"), "drain_timeout_seconds = 1\nevict_idle_seconds = 17\n")
        .expect("a configuration");
    server.signal(libc::SIGHUP);
    server.wait_log("reloaded");
    server
}

fn kill<'a>(server: Server<'a>, setup: &'a Setup) -> Server<'a> {
    let start = Instant::now();
    let is_remembered = || {
        let cursors = fs::read_dir(setup.data().join("cursors")).expect("cursors");
        let paths = cursors.map(|cursor| cursor.expect("an entry").path());
        // One that is being written has another extension.
        let mut cursors =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "cursor"));
        cursors.any(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(":20:refused=20")))
    };
    while !is_remembered() {
        assert!(start.elapsed() < PATIENCE, "the commit did not come\n{}", setup.log());
        pause();
    }
    server.kill();
    setup.start()
}

#[test]
fn what_is_settled_of_a_group_is_settled_in_the_next_run() {
    for (query, end) in [
        ("/?format=raw", reload as End),
        ("/?format=raw", kill),
        ("/?format=raw&in_flight=4", reload),
        ("/?format=raw&in_flight=4", kill),
    ] {
        // It refuses so many messages, and then hangs.
        let limit = Arc::new(AtomicUsize::new(20));
        let mut refused = 0;
        let (address, bodies) = serve({
            let limit = Arc::clone(&limit);
            move |body| {
                if body.contains("good") {
                    return Some(response("204 No Content"));
                }
                if refused == limit.load(Ordering::Relaxed) {
                    return None;
                }
                refused += usize::from(body.lines().count() == 1);
                Some(response("400 Bad Request"))
            }
        });
        let setup = poster(&address, query).with(&["--workers", "1"]);
        let server = setup.start();
        server.send(0, b"good\n");
        server.wait_delivered(1);
        let text: String = (0..100).map(|number| format!("bad {number}\n")).collect();
        server.send(0, text.as_bytes());
        while bodies.recv().expect("it serves") != "bad 19\n" {}
        assert!(bodies.recv().expect("it serves").starts_with("bad 20\n"));
        let shown = server.wait_status("what is refused of the group", |status| {
            status["sinks"][0]["dropped"]["refused"] == 20 && status["ledger"]["dropped"]["refused"] == 20
        });
        assert_balanced(&shown);
        limit.store(usize::MAX, Ordering::Relaxed);
        let server = end(server, &setup);
        let next = bodies.recv().expect("it serves");
        assert!(next.starts_with("bad 20\n"), "{query}: it gets {next} again\n{}", setup.log());
        let status = server.wait_status("settled", |status| status["ledger"]["queued"] == 0);
        assert_balanced(&status);
        assert_eq!(status["ledger"]["dropped"]["refused"], 100);
        assert_eq!(status["ledger"]["delivered"], 1);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        let kept = dead_letters(&setup);
        let distinct: BTreeSet<&str> = kept.iter().filter_map(|record| record["message"].as_str()).collect();
        assert_eq!((kept.len(), distinct.len()), (100, 100), "{query}");
    }
}
