//! If this fails, an operator cannot stop one sink while the others go on, or a paused sink delivers, loses or doubles messages, also over a
//! restart; or a message that a destination never takes cannot be passed, or is passed and neither kept nor counted.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{dead_letters, lines, poster, wait_problem};
use crate::http_server::{response, serve};
use crate::receivers::cursor;
use crate::support::client::assert_numbered_lines;
use crate::support::fault::Fault;
use crate::support::{BBQ, PATIENCE, Server, Setup, assert_balanced, pause};

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

/// One sink has delivered 1000, and the other one everything.
fn assert_says_who_is_ahead(server: &Server<'_>, received: u64) {
    let ledger = &server.status()["ledger"];
    assert_eq!(
        (&ledger["delivered"], &ledger["delivered_by_any"]),
        (&json!(1000), &json!(received)),
        "{ledger:#}"
    );
    let text = Command::new(BBQ)
        .args(["status", "--admin", &server.setup.admin()])
        .output()
        .expect("it runs")
        .stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains(&format!("(delivered by all sinks; by any sink: {received})")), "{text}");
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
        // Before they are received, nothing is queued either.
        server.wait_status("1000 delivered by one", |status| of_sink(status, "one")["delivered"] == 1000);
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
            assert_says_who_is_ahead(&server, 1000 * (u64::from(run) + 2));
            let (code, text) = server.health();
            assert!(code == 200 && text.contains("sink one is paused"), "{text}");
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
    let why = "skipped by an operator";
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

/// A sync has failed, and the next one succeeds whatever is on the disk: what it covered must be written again first.
#[test]
fn nothing_is_committed_for_an_order_while_the_output_is_in_doubt() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    setup.set_sinks(&["file:{dir}/out.log?name=one"]);
    let server = setup.start();
    server.send(0, b"line 0\n");
    server.wait_delivered(1);
    // The fault is to meet the output of the lines behind it, not this cursor.
    let start = Instant::now();
    while !cursor(&setup).is_some_and(|cursor| cursor.contains("\ndelivered 1\n")) {
        assert!(start.elapsed() < PATIENCE, "{:?}", cursor(&setup));
        pause();
    }
    let fault =
        Fault::inject_all(server.pid(), "sink-0", &["fdatasync:error=EIO:when=1", "ftruncate:error=EPERM"]);
    server.send(0, b"line 1\nline 2\n");
    server.wait_status("the problem", |status| {
        of_sink(status, "one")["problem"].as_str().is_some_and(|problem| problem.contains("not permitted"))
    });
    let why = refused(&setup, &["skip", "one"]);
    assert!(why.contains("not permitted"), "{why}");
    let status = server.status();
    let one = of_sink(&status, "one");
    // The first one may have been committed before.
    assert!(one["queued"].as_u64() >= Some(2), "{status:#}");
    assert_balanced(&status);
    drop(fault);
    server.wait_delivered(3);
    assert_numbered_lines(&setup.written(), 0..3);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// It refuses what has a word of this list, and fails while it is down.
struct Choosy {
    refused: Arc<Mutex<Vec<&'static str>>>,
    fails_on: Arc<Mutex<Option<&'static str>>>,
}

fn choosy(refused: &[&'static str]) -> (Choosy, String, Receiver<String>) {
    let choosy = Choosy { refused: Arc::new(Mutex::new(refused.to_vec())), fails_on: Arc::default() };
    let (refused, fails_on) = (Arc::clone(&choosy.refused), Arc::clone(&choosy.fails_on));
    let (address, bodies) = serve(move |body| {
        let refuses = refused.lock().expect("no panic").iter().any(|word| body.contains(word));
        let fails = fails_on.lock().expect("no panic").is_some_and(|word| body.contains(word));
        Some(response(match (fails, refuses) {
            (true, _) => "503 Service Unavailable",
            (_, true) => "400 Bad Request",
            _ => "204 No Content",
        }))
    });
    (choosy, address, bodies)
}

/// The messages in bodies of JSON that were taken: what was refused or failed is in none of them.
fn taken(bodies: &Receiver<String>, has_failed: impl Fn(&str) -> bool) -> Vec<Value> {
    let bodies: Vec<String> =
        bodies.try_iter().filter(|body| !body.is_empty() && !has_failed(body)).collect();
    bodies
        .iter()
        .flat_map(|body| body.lines())
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn wait_refused(server: &Server<'_>, delivered: u64, refused: u64) {
    let status = server.wait_status("some are refused", |status| {
        let one = of_sink(status, "one");
        one["delivered"] == delivered && one["dropped"] == json!({ "refused": refused })
    });
    assert_balanced(&status);
}

/// They are durable with the commit that follows.
fn wait_letters(setup: &Setup, letters: usize) -> Vec<Value> {
    let start = Instant::now();
    loop {
        // Its directory is there a moment before its spool is.
        let has_spool = |at: fs::DirEntry| at.path().join("spool").is_dir();
        let is_there = fs::read_dir(setup.data().join("dead-letters"))
            .is_ok_and(|mut spools| spools.any(|at| at.is_ok_and(has_spool)));
        let kept = if is_there { dead_letters(setup) } else { Vec::new() };
        if kept.len() == letters {
            return kept;
        }
        assert!(start.elapsed() < PATIENCE, "{} are kept", kept.len());
    }
}

#[test]
fn dead_letters_are_given_to_their_sink_again_as_they_were() {
    let (choosy, address, bodies) = choosy(&["wrong", "worse"]);
    let mut setup = Setup::new(&["syslog+tcp://127.0.0.1:{0}?name=app"]).with(&["--workers", "1"]);
    setup.set_sinks(&[
        // The least that may be set.
        &format!("http://{address}/?format=json&name=one&dead_letters_bytes=256KiB&parse=/(?<word>w[a-z]+)/"),
        "file:{dir}/archive.log?name=archive",
    ]);
    let server = setup.start();
    assert!(told(&setup, &["resend", "one"]).contains("one has no dead letters"));
    // One has two lines.
    let messages = ["<13>good a", "<13>wrong\nand long", "<13>worse", "<13>wrong b", "<13>good c"];
    let framed: String = messages.iter().map(|message| format!("{} {message}", message.len())).collect();
    server.send(0, framed.as_bytes());
    wait_refused(&server, 2, 3);
    let before = wait_letters(&setup, 3);
    taken(&bodies, |_| true);
    choosy.refused.lock().expect("no panic").retain(|word| *word == "worse");
    assert!(told(&setup, &["resend", "one"]).contains("resent 2 messages to one; 1 message refused again"));
    let sent = taken(&bodies, |body| body.contains("worse"));
    let without = |letter: &Value| {
        let mut letter = letter.clone();
        let object = letter.as_object_mut().expect("an object");
        object.remove("rejected").expect("a dead letter says why");
        // It is found when the letter is sent.
        object.insert("parsed".to_owned(), json!({ "word": "wrong" }));
        letter
    };
    let expected: Vec<Value> =
        before.iter().filter(|letter| !letter.to_string().contains("worse")).map(without).collect();
    assert_eq!(sent, expected);
    assert!(sent.iter().any(|message| message["message"] == "<13>wrong\nand long"), "{sent:?}");
    let left = dead_letters(&setup);
    assert_eq!(left.iter().map(|letter| &letter["message"]).collect::<Vec<_>>(), [&json!("<13>worse")]);
    choosy.refused.lock().expect("no panic").clear();
    assert!(told(&setup, &["resend", "one"]).contains("resent 1 message to one\n"));
    assert!(told(&setup, &["resend", "one"]).contains("one has no dead letters"));
    // New ones go on as before, also those that are refused, and nobody else got the old ones twice.
    choosy.refused.lock().expect("no panic").push("worst");
    server.send(0, b"7 <13>end9 <13>worst");
    server.wait_status("the end", |status| {
        of_sink(status, "one")["delivered"] == 3 && of_sink(status, "archive")["queued"] == 0
    });
    assert_eq!(wait_letters(&setup, 1)[0]["message"], "<13>worst");
    let archived = fs::read_to_string(setup.path().join("archive.log")).expect("a file");
    assert_eq!(archived.matches('<').count(), 7, "{archived}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Also over a kill. What comes later is not held up.
#[test]
fn what_could_not_be_sent_again_is_left_for_the_next_time() {
    const LETTERS: usize = 3000;
    let (choosy, address, bodies) = choosy(&["wrong"]);
    let mut setup = poster(&address, "").with(&["--workers", "1"]);
    setup.set_sinks(&[&format!("http://{address}/?format=json&name=one")]);
    let mut server = setup.start();
    server.send(0, b"good\n");
    server.wait_delivered(1);
    let sent: String = (0..LETTERS).map(|number| format!("wrong {number}\n")).collect();
    for part in sent.lines().collect::<Vec<_>>().chunks(LETTERS / 20) {
        server.send(0, (part.join("\n") + "\n").as_bytes());
        server.wait_status("durable", |status| status["ledger"]["queued"] == 0);
    }
    wait_letters(&setup, LETTERS);
    taken(&bodies, |_| true);
    choosy.refused.lock().expect("no panic").clear();
    *choosy.fails_on.lock().expect("no panic") = Some("wrong 2000");
    let mut delivered = Vec::new();
    let fails = |body: &str| body.contains("wrong 2000");
    for is_killed in [true, false] {
        let why = refused(&setup, &["resend", "one"]);
        assert!(why.contains(" left: ") && why.contains("503"), "{why}");
        server.send(0, b"good\n");
        server.wait_status("new ones go on", |status| status["ledger"]["queued"] == 0);
        if is_killed {
            server.kill();
            server = setup.start();
        }
        delivered.extend(taken(&bodies, fails));
    }
    *choosy.fails_on.lock().expect("no panic") = None;
    assert!(told(&setup, &["resend", "one"]).contains("resent "));
    delivered.extend(taken(&bodies, |_| false));
    let texts = |messages: &[Value]| -> Vec<String> {
        let texts = messages.iter().map(|message| message["message"].as_str().expect("text").to_owned());
        texts.filter(|text| text.starts_with("wrong")).collect()
    };
    let (delivered, kept) = (texts(&delivered), sent.lines().map(str::to_owned).collect::<Vec<_>>());
    let first = delivered.iter().zip(&kept).position(|(delivered, kept)| delivered != kept);
    assert!(delivered == kept, "{} of {}; the first that differs: {first:?}", delivered.len(), kept.len());
    assert!(told(&setup, &["resend", "one"]).contains("one has no dead letters"));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Other connections of the admin end after 10 seconds.
#[test]
fn an_order_may_take_longer_than_other_questions() {
    let is_repaired = Arc::new(AtomicBool::new(false));
    let is_repaired_now = Arc::clone(&is_repaired);
    let (address, _bodies) = serve(move |body| {
        let is_repaired = is_repaired_now.load(Ordering::Relaxed);
        if is_repaired && body.contains("wrong") {
            std::thread::park_timeout(Duration::from_secs(11));
        }
        Some(response(if is_repaired || !body.contains("wrong") {
            "204 No Content"
        } else {
            "400 Bad Request"
        }))
    });
    let setup = poster(&address, "/?format=raw&name=one");
    let server = setup.start();
    server.send(0, b"wrong\n");
    wait_letters(&setup, 1);
    is_repaired.store(true, Ordering::Relaxed);
    assert!(told(&setup, &["resend", "one"]).contains("resent 1 message to one"));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Its place, counts and dead letters go with it, over a reload and a restart; no message comes again, and none is missing.
#[test]
fn a_renamed_sink_goes_on_where_it_was() {
    let (choosy, address, bodies) = choosy(&["wrong"]);
    let configured = |setup: &Setup, http: &str, archive: &str| {
        let http = format!("http://{address}/?format=json&name={http}");
        let archive = format!("file:{}/archive.log?name={archive}", setup.path().display());
        let text = format!("sink = [\"{http}\", \"{archive}\"]\n");
        fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
    };
    let listen = ["lines+tcp://127.0.0.1:{0}"];
    let mut setup = Setup::new(&listen).with(&["--config", "{dir}/bbq.toml", "--workers", "1"]);
    setup.set_sinks(&[]);
    configured(&setup, "one", "archive");
    let server = setup.start();
    server.send(0, b"good 1\nwrong 2\ngood 3\n");
    wait_refused(&server, 2, 1);
    wait_queued(&server, "archive", 0);
    let why = refused(&setup, &["rename", "one", "archive"]);
    assert!(why.contains("archive is the name of a sink already"), "{why}");
    assert!(told(&setup, &["pause", "archive"]).contains("paused"));
    let there_and_back = [("one", "first"), ("one", "second"), ("one", "first")];
    for (name, to) in there_and_back.into_iter().chain([("archive", "frozen"), ("archive", "cold")]) {
        let done = told(&setup, &["rename", name, to]);
        assert!(
            done.contains(&format!("renamed {name} to {to}: write name={to} in the configuration")),
            "{done}"
        );
    }
    // Whoever asks again gets the same answer.
    assert!(told(&setup, &["rename", "archive", "cold"]).contains("renamed archive to cold"));
    let why = refused(&setup, &["rename", "one", "cold"]);
    assert!(
        why.contains("cold is, or was, the name of another sink") && why.contains("choose another name"),
        "{why}"
    );
    // It goes on meanwhile, and over a restart with the old names.
    server.send(0, b"good 4\nwrong 5\n");
    wait_refused(&server, 3, 2);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let server = setup.start();
    server.wait_log("this sink was renamed with bbq sink rename: write name=cold in the configuration");
    wait_refused(&server, 3, 2);
    assert!(told(&setup, &["list"]).contains("archive\n    paused\n    delivered 3, queued 2"));
    let change = |http: &str, archive: &str, wanted: &dyn Fn(&Value) -> bool| {
        configured(&setup, http, archive);
        server.signal(libc::SIGHUP);
        server.wait_status("the change", wanted)
    };
    let both = "archive&keep=3&rotate=daily\", \"null:?name=first";
    let status = change("one", both, &|status| status["refused_change"].is_string());
    let why = status["refused_change"].as_str().expect("a text");
    assert!(
        why.contains("it was renamed to first (bbq sink rename), and a sink of that name is also configured"),
        "{why}"
    );
    let status = change("first", "cold", &|status| status["sinks"][0]["name"] == "first");
    assert_eq!(
        (of_sink(&status, "first")["delivered"].as_u64(), &of_sink(&status, "first")["dropped"]),
        (Some(3), &json!({"refused": 2}))
    );
    let cold = of_sink(&status, "cold");
    assert_eq!((&cold["paused"], &cold["queued"]), (&json!(true), &json!(2)));
    assert!(told(&setup, &["resume", "cold"]).contains("resumed"));
    wait_queued(&server, "cold", 0);
    choosy.refused.lock().expect("no panic").clear();
    assert!(told(&setup, &["resend", "first"]).contains("resent 2 messages to first\n"));
    assert_balanced(&server.status());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    // Those that were refused were sent three times: with others, alone, and in the end.
    let sent: String = bodies.try_iter().collect();
    let last = |word: &str| sent.matches(word).count();
    assert!(last("wrong 2") >= 2 && last("wrong 5") >= 2, "{sent}");
    let archived = fs::read_to_string(setup.path().join("archive.log")).expect("a file");
    assert_eq!(archived, "good 1\nwrong 2\ngood 3\ngood 4\nwrong 5\n");
}

#[test]
fn mistakes_are_told() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&["file:{dir}/out.log?name=one", "null:?name=two"]);
    let server = setup.start();
    for (arguments, says) in [
        (&["pause", "three"][..], "no sink has the name \"three\"; there are: one, two"),
        (&["resend", "one"], "only sinks http: and otlp take dead letters again, and one is another kind"),
        (&["skip", "one", "--before", "soon"], "use now, how long ago (90s, 10m, 2h, 1d), or a time such as"),
    ] {
        let why = refused(&setup, arguments);
        assert!(why.contains(says), "{why}");
    }
    assert_eq!(server.stop(), Some(0));
    let why = refused(&setup, &["pause", "one"]);
    assert!(why.contains("no server listens at"), "{why}");
}
