//! If this fails, a sink delivers what its rules leave out, or loses or doubles what they keep, also when the rules change while a group is
//! half delivered; or a secret leaves the server that they replace; or what they leave out is not counted.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use crate::http::dead_letters;
use crate::http_server::{response, serve};
use crate::receivers::cursor;
use crate::support::{BBQ, PATIENCE, Server, Setup, assert_balanced, pause, refused_start};

/// Leaves every third message out, and hides a word of the others.
const RULES: &str = "where=!message.startsWith(\"debug\")&redact=s/password=\\w+/password=***/";

fn word(number: usize) -> &'static str {
    if number % 3 == 2 { "debug" } else { "info" }
}

/// Numbered messages, of which every third is left out.
fn text(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| format!("{} {number} password=sesame\n", word(number))).collect()
}

/// What the rules leave of them.
fn left(numbers: std::ops::Range<usize>) -> Vec<String> {
    let numbers = numbers.filter(|number| word(*number) == "info");
    numbers.map(|number| format!("info {number} password=***")).collect()
}

fn printed(setup: &Setup, arguments: &[&str]) -> String {
    let start = Instant::now();
    let ask =
        || Command::new(BBQ).args(arguments).args(["--admin", &setup.admin()]).output().expect("it runs");
    let mut output = ask();
    // A sink that has just begun may not have come to an order yet.
    while String::from_utf8_lossy(&output.stderr).contains("try again") && start.elapsed() < PATIENCE {
        pause();
        output = ask();
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}\n{}", setup.log());
    String::from_utf8(output.stdout).expect("text")
}

/// Sinks with rules, and others.
fn with_rules_at_each_sink(receiver: &Setup) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let child = setup.path().join("child");
    fs::write(&child, format!("#!/bin/sh\nexec cat >> {}\n", setup.path().join("exec.log").display()))
        .expect("a script");
    fs::set_permissions(&child, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
    setup.set_sinks(&[
        &format!("file:{{dir}}/out.log?name=file&format=json&{RULES}"),
        &format!("http://{}/ndjson?format=raw&name=http&{RULES}", receiver.address(0)),
        &format!("exec:{{dir}}/child?name=exec&{RULES}"),
        "file:{dir}/all.log?name=all",
        "null:?name=nothing&where=false",
    ]);
    setup
}

#[test]
fn each_sink_has_rules_of_its_own() {
    let receiver = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let to = receiver.start();
    let setup = with_rules_at_each_sink(&receiver);
    let mut server = setup.start();
    let mut so_far = 0;
    for run in 1..=2_u64 {
        let until = 3000 * run as usize;
        server.send(0, text(so_far..until).as_bytes());
        so_far = until;
        let counts = |status: &Value| {
            status["sinks"].as_array().expect("sinks").iter().all(|sink| sink["queued"] == 0)
                && status["ledger"]["received"] == 3000 * run
        };
        let status = server.wait_status("everything is settled", counts);
        assert_balanced(&status);
        for (index, [delivered, filtered]) in
            [[2000, 1000], [2000, 1000], [2000, 1000], [3000, 0], [0, 3000]].into_iter().enumerate()
        {
            let sink = &status["sinks"][index];
            assert_eq!(
                (&sink["delivered"], &sink["filtered"], &sink["dropped"], sink["lag_seconds"].as_f64()),
                (&json!(delivered * run), &json!(filtered * run), &json!({}), Some(0.0)),
                "{sink:#}"
            );
        }
        if run == 1 {
            server.kill();
            server = setup.start();
        }
    }
    assert!(
        printed(&setup, &["status"])
            .contains("delivered 4000, queued 0, lag 0.0 s, dropped 0, filtered 2000")
    );
    assert!(printed(&setup, &["sink", "list"]).contains("delivered 0, queued 0, dropped 0, filtered 6000"));
    let metrics = server.probe("/metrics").1;
    assert!(metrics.contains("bbq_sink_filtered_messages_total{sink=\"http\"} 2000"), "{metrics}");
    to.wait_status("all of them", |status| {
        status["ledger"]["delivered"].as_u64() >= Some(4000) && status["ledger"]["queued"] == 0
    });
    assert_eq!((server.stop(), to.stop()), (Some(0), Some(0)), "{}", setup.log());
    let expected = left(0..6000);
    let written = setup.written();
    let records: Vec<Value> = String::from_utf8_lossy(&written)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let messages: Vec<&str> = records.iter().filter_map(|record| record["message"].as_str()).collect();
    assert_eq!(messages, expected);
    // The first run has a stream of its own, whose numbers count what is left out, too.
    let sequences: Vec<u64> =
        records.iter().take(2000).filter_map(|record| record["sequence"].as_u64()).collect();
    assert_eq!(sequences, (1..=3000).filter(|number| number % 3 != 0).collect::<Vec<u64>>());
    let as_lines =
        |bytes: &[u8]| -> Vec<String> { String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect() };
    assert_eq!(
        as_lines(&fs::read(setup.path().join("all.log")).expect("a file")).join("\n") + "\n",
        text(0..6000)
    );
    // These two may repeat what was on its way when the server was killed.
    for bytes in [receiver.written(), fs::read(setup.path().join("exec.log")).expect("a file")] {
        let found: BTreeSet<String> = as_lines(&bytes).into_iter().collect();
        assert_eq!(found, expected.iter().cloned().collect());
    }
}

#[test]
fn a_sink_that_passes_everything_on_refuses_rules() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    for option in ["where=severity <= 4", "sample=0.5", "redact=s/a/b/"] {
        setup.set_sinks(&[&format!("bbq://127.0.0.1:1?{option}")]);
        let (code, text) = refused_start(&mut setup.command());
        assert_eq!(code, Some(2), "{text}");
        assert!(
            text.contains("numbers of a stream without gaps")
                && text.contains("at the sinks of the next one"),
            "{text}"
        );
    }
}

/// How a run ends in the middle of a group, and the next one begins with other rules.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Kill,
    Reload,
}

/// A sink that posts to `address`, with these rules.
fn configure(setup: &Setup, address: &str, rules: &str) {
    let text = format!(
        "drain_timeout_seconds = 1\n[[sink]]\nspec = \"http://{address}/?format=raw\"\nname = \"to\"\n{rules}\n[spool]\nflush_interval_ms = 5\n"
    );
    fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
}

fn change<'a>(server: Server<'a>, setup: &'a Setup, end: End) -> Server<'a> {
    match end {
        End::Kill => {
            server.kill();
            setup.start()
        }
        End::Reload => {
            let reloads = || setup.log().matches("reloaded").count();
            let (start, before) = (Instant::now(), reloads());
            server.signal(libc::SIGHUP);
            while reloads() == before {
                assert!(start.elapsed() < PATIENCE, "it does not reload\n{}", setup.log());
                pause();
            }
            server
        }
    }
}

/// Waits until the cursor has these words.
fn wait_committed(setup: &Setup, words: &str) {
    let start = Instant::now();
    while !cursor(setup).is_some_and(|cursor| cursor.contains(words)) {
        assert!(start.elapsed() < PATIENCE, "the commit did not come\n{}", setup.log());
        pause();
    }
}

/// A message with a secret, which a server refuses.
fn bad(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| format!("bad {number} sesame\n")).collect()
}

fn is_left(number: usize, without: Option<usize>) -> bool {
    without != Some(number % 10)
}

/// What is settled of a group is counted in the messages that the rules of then have left.
#[test]
fn other_rules_hold_for_what_is_received_from_then_on() {
    for end in [End::Kill, End::Reload] {
        for (before, after) in [(Some(3), Some(5)), (Some(3), None), (None, Some(5))] {
            change_in_a_group(end, before, after);
        }
    }
}

/// Rules that leave out numbers with this digit.
fn without(digit: Option<usize>) -> String {
    digit.map_or_else(String::new, |digit| {
        format!("where = '!message.contains(\"{digit} sesame\")'\nredact = \"s/sesame/***/\"")
    })
}

fn change_in_a_group(end: End, before: Option<usize>, after: Option<usize>) {
    let limit = Arc::new(AtomicUsize::new(20));
    let mut refused = 0;
    let (address, bodies) = serve({
        let limit = Arc::clone(&limit);
        move |body| {
            if body.contains("good") || limit.load(Ordering::Relaxed) == 0 {
                return Some(response("204 No Content"));
            }
            if refused == limit.load(Ordering::Relaxed) {
                return None;
            }
            refused += usize::from(body.lines().count() == 1);
            Some(response("400 Bad Request"))
        }
    });
    let mut setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1", "--config", "{dir}/bbq.toml"]);
    setup.set_sinks(&[]);
    configure(&setup, &address, &without(before));
    let server = setup.start();
    server.send(0, b"good\n");
    server.wait_delivered(1);
    server.send(0, bad(0..100).as_bytes());
    let next = (0..100).filter(|number| is_left(*number, before)).nth(20).expect("there are more");
    let begins = |body: &str| body.starts_with(&format!("bad {next} "));
    // The server hangs.
    while !begins(&bodies.recv().expect("it serves")) {}
    wait_committed(&setup, ":20:refused=20");
    configure(&setup, &address, &without(after));
    limit.store(usize::MAX, Ordering::Relaxed);
    let server = change(server, &setup, end);
    let body = bodies.recv().expect("it serves");
    assert!(begins(&body), "{end:?} {before:?} {after:?}: {body}\n{}", setup.log());
    server.send(0, bad(100..200).as_bytes());
    let expected = settled(&server, before, after);
    // What was refused is sent as it is, and not looked at again.
    wait_committed(&setup, &format!("dropped {} refused", expected.len()));
    limit.store(0, Ordering::Relaxed);
    configure(&setup, &address, "where = \"false\"");
    let server = change(server, &setup, end);
    while bodies.try_recv().is_ok() {}
    let resent = printed(&setup, &["sink", "resend", "to"]);
    assert!(resent.contains(&format!("resent {} messages", expected.len())), "{resent}");
    let secret = |number: usize| match if number < 100 { before } else { after } {
        Some(_) => "***",
        None => "sesame",
    };
    let expected: BTreeSet<String> =
        expected.iter().map(|number| format!("bad {number} {}", secret(*number))).collect();
    let found: BTreeSet<String> =
        bodies.try_iter().flat_map(|body| body.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    assert_eq!(found, expected);
    assert_eq!(fs::read_dir(setup.data().join("dead-letters")).expect("a directory").count(), 0);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Waits until everything is settled. Returns the numbers that the rules have left.
fn settled(server: &Server<'_>, before: Option<usize>, after: Option<usize>) -> Vec<usize> {
    let status = server.wait_status("settled", |status| {
        status["ledger"]["received"] == 201 && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    let expected: Vec<usize> =
        (0..200).filter(|number| is_left(*number, if *number < 100 { before } else { after })).collect();
    let sink = &status["sinks"][0];
    assert_eq!(
        (sink["dropped"]["refused"].as_u64(), sink["filtered"].as_u64()),
        (Some(expected.len() as u64), Some(200 - expected.len() as u64))
    );
    expected
}

/// A message that the rules leave out is none to skip.
#[test]
fn an_operator_skips_what_the_sink_would_have_got() {
    let (address, _bodies) = serve(|_| Some(response("503 Service Unavailable")));
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    setup.set_sinks(&[&format!("http://{address}/?format=raw&name=to&{RULES}"), "null:?name=all"]);
    let server = setup.start();
    printed(&setup, &["sink", "pause", "to"]);
    // Each in a group of its own.
    for number in 1..=4 {
        server.send(0, format!("debug {number}\n").as_bytes());
        server.wait_status("it is received", |status| status["ledger"]["received"] == number);
    }
    server.send(0, text(0..9).as_bytes());
    // What is skipped must be on the disk.
    server.wait_status("13 durable", |status| status["sinks"][1]["delivered"] == 13);
    assert!(printed(&setup, &["sink", "skip", "to"]).contains("skipped 1 message"));
    let status = server.wait_status("one is skipped", |status| status["sinks"][0]["dropped"]["skipped"] == 1);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let letters = dead_letters(&setup);
    assert_eq!((letters.len(), letters[0]["message"].as_str()), (1, Some("info 0 password=***")));
}

/// It would get batches without some of their records, under the checksum of all of them.
#[test]
fn a_next_server_gets_nothing_that_has_rules_of_an_earlier_spec() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let away = setup.address(1);
    let with_rules = format!("http://{away}/?name=to&where=!message.contains('3')");
    setup.set_sinks(&[&with_rules]);
    let server = setup.start();
    server.send(0, text(0..10).as_bytes());
    server.wait_status("10 received", |status| status["ledger"]["received"] == 10);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    setup.set_sinks(&[&format!("bbq://{away}?name=to")]);
    let (code, said) = refused_start(&mut setup.command());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("must get all of a stream; give the sink another name"), "{said}");
    setup.set_sinks(&[&with_rules]);
    let server = setup.start();
    server.wait_status("as before", |status| status["sinks"][0]["queued"] == 10);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
