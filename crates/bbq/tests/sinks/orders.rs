//! If this fails, an operator cannot stop one sink while the others go on, or a paused sink delivers, loses or doubles messages, also over a
//! restart; or a message that a destination never takes cannot be passed, or is passed and neither kept nor counted.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http::{dead_letters, lines, poster, wait_problem};
use crate::http_server::{response, serve};
use crate::support::client::assert_numbered_lines;
use crate::support::{BBQ, Server, Setup, assert_balanced};

fn sink(setup: &Setup, arguments: &[&str]) -> Output {
    let (action, rest) = arguments.split_first().expect("an action");
    let mut command = Command::new(BBQ);
    command.args(["sink", action, "--admin", &setup.admin()]).args(rest);
    command.output().expect("it runs")
}

/// What a command prints that succeeds.
fn told(setup: &Setup, arguments: &[&str]) -> String {
    let output = sink(setup, arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}\n{}", setup.log());
    String::from_utf8(output.stdout).expect("text")
}

/// Why a command fails.
fn refused(setup: &Setup, arguments: &[&str]) -> String {
    let output = sink(setup, arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn of_sink<'a>(status: &'a Value, name: &str) -> &'a Value {
    let sinks = status["sinks"].as_array().expect("sinks");
    sinks.iter().find(|sink| sink["name"] == name).expect("a sink of this name")
}

fn wait_queued(server: &Server<'_>, name: &str, queued: u64) -> Value {
    server.wait_status(&format!("{queued} queued for {name}"), |status| {
        of_sink(status, name)["queued"] == queued
    })
}

/// A server beside, which a sink `bbq:` or `http:` of the other one sends to.
fn next_server() -> Setup {
    Setup::new(&["bbq+tcp://127.0.0.1:{0}", "http+tcp://127.0.0.1:{1}"])
}

/// Each kind that a machine without other servers has.
#[test]
fn a_paused_sink_delivers_nothing_until_it_is_resumed_also_after_a_restart() {
    let next = next_server();
    let to = next.start();
    let mut so_far = 0;
    for spec in [
        "file:{dir}/out.log?name=one".to_owned(),
        "exec:{dir}/child?name=one".to_owned(),
        format!("bbq://{}?name=one", next.address(0)),
        format!("http://{}/ndjson?format=raw&name=one", next.address(1)),
    ] {
        let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
        let child = setup.path().join("child");
        fs::write(&child, format!("#!/bin/sh\nexec cat >> {}\n", setup.path().join("out.log").display()))
            .expect("a script");
        fs::set_permissions(&child, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
        setup.set_sinks(&[&spec, "file:{dir}/archive.log?name=archive"]);
        let mut server = setup.start();
        server.send(0, &lines(0..1000));
        wait_queued(&server, "one", 0);
        assert!(told(&setup, &["pause", "one"]).contains("paused one"), "{spec}");
        for run in 0..2 {
            let numbers = 1000 + run * 1000..2000 + run * 1000;
            server.send(0, &lines(numbers));
            let status = wait_queued(&server, "one", 1000 * u64::from(run + 1));
            assert_eq!(
                (&of_sink(&status, "one")["paused"], &of_sink(&status, "archive")["paused"]),
                (&json!(true), &json!(false))
            );
            server.wait_status("the other one goes on", |status| of_sink(status, "archive")["queued"] == 0);
            assert_balanced(&status);
            let (code, text) = server.health();
            assert!(code == 200 && text.contains("name=one is paused"), "{text}");
            assert_eq!(server.stop(), Some(0), "{}", setup.log());
            server = setup.start();
        }
        let status = wait_queued(&server, "one", 2000);
        assert_eq!(of_sink(&status, "one")["delivered"], 1000, "{spec}");
        assert!(
            told(&setup, &["list"]).contains("one\n    paused\n    delivered 1000, queued 2000"),
            "{spec}"
        );
        assert!(told(&setup, &["resume", "one"]).contains("resumed one"));
        let status = wait_queued(&server, "one", 0);
        assert_eq!(
            (of_sink(&status, "one")["delivered"].as_u64(), &of_sink(&status, "one")["dropped"]),
            (Some(3000), &json!({}))
        );
        assert_balanced(&status);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        let server = setup.start();
        assert_eq!(of_sink(&server.status(), "one")["paused"], false, "a sink that is resumed stays so");
        assert_eq!(server.stop(), Some(0));
        match spec.starts_with("file:") || spec.starts_with("exec:") {
            true => assert_numbered_lines(&setup.written(), 0..3000),
            false => {
                so_far += 3000;
                to.wait_delivered(so_far);
            }
        }
    }
    let sum = |lines: &[u8]| lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert_eq!(sum(&next.written()), 6000);
}

/// It takes connections and answers nothing: what is on its way is sent again after the pause.
#[test]
fn a_sink_can_be_paused_while_its_destination_hangs() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hangs_now = Arc::clone(&hangs);
    let (address, bodies) =
        serve(move |_| (!hangs_now.load(Ordering::Relaxed)).then(|| response("204 No Content")));
    let setup = poster(&address, "/?format=raw&name=one");
    let server = setup.start();
    server.send(0, &lines(0..10));
    let first = bodies.recv().expect("it is posted");
    told(&setup, &["pause", "one"]);
    // A reload is no obstacle, and changes nothing.
    fs::write(setup.path().join("bbq.toml"), "drain_timeout_seconds = 2\n").expect("a configuration");
    server.signal(libc::SIGHUP);
    server.wait_log("reloaded");
    assert_eq!(of_sink(&server.status(), "one")["paused"], true);
    hangs.store(false, Ordering::Relaxed);
    assert_eq!(of_sink(&server.status(), "one")["queued"], 10);
    told(&setup, &["resume", "one"]);
    let status = wait_queued(&server, "one", 0);
    assert_eq!(of_sink(&status, "one")["delivered"], 10);
    assert_balanced(&status);
    assert_eq!(bodies.recv().expect("it is posted again"), first);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// In the middle of what became durable together.
#[test]
fn a_message_that_a_destination_never_takes_can_be_skipped_alone() {
    let (address, bodies) = serve(|body| {
        Some(response(if body.contains("poison") { "503 Service Unavailable" } else { "204 No Content" }))
    });
    let mut setup = poster(&address, "").with(&["--workers", "1"]);
    setup.set_sinks(&[&format!("http://{address}/?format=raw&name=one"), "null:?name=all"]);
    let mut server = setup.start();
    told(&setup, &["pause", "one"]);
    server.send(0, b"poison a\npoison b\nline 0\nline 1\n");
    // What is skipped must be on the disk.
    server.wait_status("4 durable", |status| of_sink(status, "all")["delivered"] == 4);
    // While it is paused, too.
    assert!(told(&setup, &["skip", "one"]).contains("skipped 1 message, kept in"));
    let status = wait_queued(&server, "one", 3);
    assert_eq!(of_sink(&status, "one")["dropped"], json!({ "skipped": 1 }));
    assert_eq!(server.stop(), Some(0));
    server = setup.start();
    assert_eq!(of_sink(&server.status(), "one")["queued"], 3, "a start does not forget it");
    told(&setup, &["resume", "one"]);
    wait_problem(&server, "503");
    told(&setup, &["skip", "one"]);
    let status = wait_queued(&server, "one", 0);
    let one = of_sink(&status, "one");
    assert_eq!((one["delivered"].as_u64(), &one["dropped"]), (Some(2), &json!({ "skipped": 2 })));
    assert_balanced(&status);
    assert!(told(&setup, &["skip", "one"]).contains("nothing to skip"));
    let kept = dead_letters(&setup);
    let texts: Vec<(&str, &str)> = kept
        .iter()
        .map(|letter| (letter["message"].as_str().expect("text"), letter["rejected"].as_str().expect("why")))
        .collect();
    let why = "skipped, as an operator told the sink";
    assert_eq!(texts, [("poison a", why), ("poison b", why)]);
    let delivered = bodies.try_iter().filter(|body| !body.contains("poison")).collect::<String>();
    assert_eq!(delivered, "line 0\nline 1\n");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn all_that_waits_can_be_skipped_up_to_a_time() {
    for workers in ["1", "2"] {
        let is_away = Arc::new(AtomicBool::new(true));
        let is_away_now = Arc::clone(&is_away);
        let (address, bodies) = serve(move |_| {
            Some(response(if is_away_now.load(Ordering::Relaxed) {
                "503 Service Unavailable"
            } else {
                "204 No Content"
            }))
        });
        let setup = poster(&address, "/?format=raw&name=one").with(&["--workers", workers]);
        let server = setup.start();
        for part in 0..4 {
            server.send(0, &lines(part * 5000..(part + 1) * 5000));
        }
        wait_problem(&server, "503");
        wait_queued(&server, "one", 20_000);
        assert!(told(&setup, &["skip", "one", "--before", "1h"]).contains("nothing to skip"));
        assert!(told(&setup, &["skip", "one", "--before", "now"]).contains("skipped 20000 messages"));
        let status = wait_queued(&server, "one", 0);
        let one = of_sink(&status, "one");
        assert_eq!((one["delivered"].as_u64(), &one["dropped"]), (Some(0), &json!({ "skipped": 20_000 })));
        assert_balanced(&status);
        assert_eq!(dead_letters(&setup).len(), 20_000);
        is_away.store(false, Ordering::Relaxed);
        server.send(0, b"after\n");
        server
            .wait_status("what comes later is delivered", |status| of_sink(status, "one")["delivered"] == 1);
        while bodies.recv().expect("it serves") != "after\n" {}
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
}

#[test]
fn mistakes_are_told() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&["file:{dir}/out.log?name=one", "null:?name=two"]);
    let server = setup.start();
    for (arguments, says) in [
        (&["pause", "three"][..], "no sink is called \"three\"; there are: one, two"),
        (&["skip", "one", "--before", "soon"], "use now, how long ago (90s, 10m, 2h, 1d), or a time such as"),
    ] {
        let why = refused(&setup, arguments);
        assert!(why.contains(says), "{why}");
    }
    assert_eq!(server.stop(), Some(0));
    let why = refused(&setup, &["pause", "one"]);
    assert!(why.contains("no server listens at"), "{why}");
}
