//! If this fails, messages that are posted to a server are lost, come twice without a kill, or stop behind one that the server refuses;
//! or a server that hangs holds up a reload or a stop.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use serde_json::Value;

use crate::support::client::assert_numbered_lines;
use crate::support::{BBQ, PATIENCE, Server, Setup, assert_balanced};

/// A second bbq with an HTTP listener.
pub(super) fn receiver(query: &str) -> Setup {
    Setup::new(&[&format!("http+tcp://127.0.0.1:{{0}}{query}")])
}

/// A bbq that posts to it.
pub(super) fn poster(to: &str, query: &str) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 1\n");
    setup.set_sinks(&[&format!("http://{to}{query}")]);
    setup
}

pub(super) fn lines(numbers: std::ops::Range<u32>) -> Vec<u8> {
    numbers.flat_map(|number| format!("line {number}\n").into_bytes()).collect()
}

pub(super) fn wait_problem(server: &Server<'_>, words: &str) {
    let shows = |problem: &serde_json::Value| problem.as_str().is_some_and(|text| text.contains(words));
    server.wait_status(words, |status| shows(&status["sinks"][0]["problem"]));
}

#[test]
fn messages_that_the_server_refuses_are_rejected_alone() {
    let receiver = receiver("?message_bytes_max=100");
    let to = receiver.start();
    let setup = poster(&receiver.address(0).to_string(), "/ndjson?format=raw");
    let server = setup.start();
    let poison = "x".repeat(101);
    for part in 0..4_u32 {
        server.send(0, &lines(part * 1000..(part + 1) * 1000));
        server.send(0, format!("{poison}\n").as_bytes());
    }
    server.wait_status("4000 delivered", |status| status["ledger"]["delivered"] == 4000);
    let status = server.wait_status("4 rejected", |status| status["ledger"]["dropped"]["refused"] == 4);
    assert_balanced(&status);
    to.wait_delivered(4000);
    assert_numbered_lines(&receiver.written(), 0..4000);
    assert_eq!(server.stop(), Some(0));
    // The sink remembers that its server takes other messages.
    let server = setup.start();
    server.send(0, format!("{poison}\n").as_bytes());
    let status = server.wait_status("5 rejected", |status| status["ledger"]["dropped"]["refused"] == 5);
    assert_balanced(&status);
}

/// What `bbq spool cat --json` prints of the dead letters of the only sink.
pub(super) fn dead_letters(setup: &Setup) -> Vec<Value> {
    let spools = fs::read_dir(setup.data().join("dead-letters")).expect("messages were rejected");
    let spools: Vec<PathBuf> = spools.map(|spool| spool.expect("its name").path()).collect();
    assert_eq!(spools.len(), 1, "{spools:?}");
    let output =
        Command::new(BBQ).args(["spool", "cat", "--json"]).arg(&spools[0]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

/// Waits for dead letters: they are durable with the commit behind them.
pub(super) fn wait_dead_letters(setup: &Setup) -> Vec<Value> {
    let start = Instant::now();
    loop {
        let kept = dead_letters(setup);
        if !kept.is_empty() {
            return kept;
        }
        assert!(start.elapsed() < PATIENCE, "nothing is kept");
    }
}

/// A message that `receiver("?message_bytes_max=100")` refuses.
pub(super) fn poison(number: usize) -> String {
    format!("{number:06} {}", "x".repeat(101))
}

/// Starts with a server that has taken a message.
pub(super) fn start_among_good_ones<'a>(setup: &'a Setup, to: &Server<'_>) -> Server<'a> {
    let server = setup.start();
    server.send(0, b"good\n");
    to.wait_delivered(1);
    server
}

#[test]
fn what_a_server_refuses_is_kept_with_the_reason() {
    let receiver = receiver("?message_bytes_max=100");
    let to = receiver.start();
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}", "syslog+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&[&format!("http://{}/ndjson?format=raw", receiver.address(0))]);
    let mut server = start_among_good_ones(&setup, &to);
    let mut sent = Vec::new();
    // Of two listeners, and of two runs.
    for run in 0..2 {
        for listener in [0, 1] {
            let messages: Vec<String> =
                (0..50).map(|number| poison(run * 1000 + listener * 100 + number)).collect();
            server.send(listener, (messages.join("\n") + "\n").as_bytes());
            sent.extend(messages);
        }
        server.send(0, b"good\n");
        let refused = (run + 1) * 100;
        let status =
            server.wait_status("rejected", |status| status["ledger"]["dropped"]["refused"] == refused);
        assert_balanced(&status);
        server.wait_delivered(run as u64 + 2);
        // They are durable with the next commit.
        server.wait_log("the destination rejects messages for good; they are kept");
        let start = Instant::now();
        let kept = loop {
            let kept = dead_letters(&setup);
            if kept.len() >= refused {
                break kept;
            }
            assert!(start.elapsed() < PATIENCE, "{} are kept", kept.len());
        };
        let mut messages: Vec<&str> = kept.iter().filter_map(|record| record["message"].as_str()).collect();
        messages.sort_unstable();
        assert_eq!(messages, sent, "while the server runs");
        for record in &kept {
            let number: usize = record["message"].as_str().expect("text")[..6].parse().expect("its number");
            let listener = if number % 1000 < 100 { "lines+tcp" } else { "syslog+tcp" };
            assert!(record["listener"].as_str().is_some_and(|name| name.starts_with(listener)), "{record:#}");
            assert!(record["rejected"].as_str().is_some_and(|why| why.contains("413")), "{record:#}");
            assert!(record["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{record:#}");
        }
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        if run == 1 {
            break;
        }
        server = setup.start();
    }
    assert_eq!(dead_letters(&setup).len(), 200, "after the stop");
}

/// Those that come last stay.
#[test]
fn dead_letters_have_a_limit() {
    let receiver = receiver("?message_bytes_max=100");
    let to = receiver.start();
    let query = "/ndjson?format=raw&dead_letters_bytes=256KiB";
    // One lane: the last message is rejected last.
    let setup = poster(&receiver.address(0).to_string(), query).with(&["--workers", "1"]);
    let server = start_among_good_ones(&setup, &to);
    let messages = 3000;
    for number in 0..messages {
        server.send(0, format!("{}\n", poison(number)).as_bytes());
    }
    let status = server.wait_status("rejected", |status| status["ledger"]["dropped"]["refused"] == messages);
    assert_balanced(&status);
    // Each is kept, or counted as deleted.
    server.wait_status("all counted", |status| {
        let deleted = status["sinks"][0]["letters_deleted"].as_u64().expect("a count");
        deleted > 0 && deleted + dead_letters(&setup).len() as u64 == messages as u64
    });
    server.wait_log("dead letters deleted because they reached dead_letters_bytes");
    let (code, text) = server.health();
    assert!(code == 503 && text.contains("raise dead_letters_bytes"), "{text}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let kept = dead_letters(&setup);
    assert!((100..messages).contains(&kept.len()), "{} are kept", kept.len());
    let numbers = kept.iter().filter_map(|record| record["message"].as_str()?[..6].parse().ok());
    let numbers: BTreeSet<usize> = numbers.collect();
    assert_eq!(numbers.last(), Some(&(messages - 1)));
}

#[test]
fn a_killed_server_keeps_what_was_refused() {
    let receiver = receiver("?message_bytes_max=100");
    let to = receiver.start();
    let setup = poster(&receiver.address(0).to_string(), "/ndjson?format=raw");
    let server = start_among_good_ones(&setup, &to);
    let messages = 300;
    for number in 0..messages {
        server.send(0, format!("{}\n", poison(number)).as_bytes());
    }
    // Anywhere in the middle.
    server.wait_status("some rejected", |status| status["ledger"]["dropped"]["refused"].as_u64() > Some(20));
    let spooled = server.wait_status("all", |status| status["ledger"]["received"] == messages + 1);
    assert_balanced(&spooled);
    server.kill();
    let server = setup.start();
    // The kill takes what was not on disk yet: nobody acknowledges lines.
    let status = server.wait_status("nothing queued", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    let refused = status["ledger"]["dropped"]["refused"].as_u64().expect("some were refused");
    assert_eq!(status["ledger"]["received"], refused + 1, "the good one was delivered");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let kept = dead_letters(&setup);
    let identity = |record: &Value| (record["stream"].to_string(), record["sequence"].to_string());
    let distinct: BTreeSet<(String, String)> = kept.iter().map(identity).collect();
    assert_eq!(distinct.len() as u64, refused);
}

/// A message that can be kept nowhere is not passed.
#[test]
fn a_sink_waits_until_dead_letters_can_be_written() {
    let receiver = receiver("?message_bytes_max=100");
    let to = receiver.start();
    let setup = poster(&receiver.address(0).to_string(), "/ndjson?format=raw");
    let server = start_among_good_ones(&setup, &to);
    let in_the_way = setup.data().join("dead-letters");
    fs::write(&in_the_way, "a file").expect("a file");
    server.send(0, format!("{}\n", poison(7)).as_bytes());
    wait_problem(&server, "cannot keep rejected messages in ");
    server.kill();
    fs::remove_file(&in_the_way).expect("it is there");
    let server = setup.start();
    server.wait_status("rejected", |status| status["ledger"]["dropped"]["refused"] == 1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(dead_letters(&setup).len(), 1);
}

/// The same response to everything says that the configuration is wrong.
#[test]
fn a_server_that_takes_nothing_gets_no_more_than_some_messages() {
    let receiver = receiver("?message_bytes_max=100");
    let _to = receiver.start();
    let mut setup = poster(&receiver.address(0).to_string(), "/ndjson?format=raw");
    let server = setup.start();
    let poison = format!("{}\n", "x".repeat(101));
    for refused in 1..=10 {
        server.send(0, poison.as_bytes());
        server.wait_status("rejected", |status| status["ledger"]["dropped"]["refused"] == refused);
    }
    // More than it may refuse, in one group.
    server.send(0, poison.repeat(40).as_bytes());
    wait_problem(&server, "it has taken nothing yet: check path, query, preset, format and compress");
    server.kill();
    // Also not after a restart.
    let server = setup.start();
    wait_problem(&server, "it has taken nothing yet: check path, query, preset, format and compress");
    // Those of the group that it may refuse are kept and counted, although the group is not done.
    server.wait_status("all of them", |status| status["ledger"]["dropped"]["refused"] == 16);
    assert_eq!(server.stop(), Some(0));
    // Those that were on the disk before the kill, and not in the cursor, are there twice.
    let letters = dead_letters(&setup);
    let different: BTreeSet<String> =
        letters.iter().map(|letter| format!("{} {}", letter["stream"], letter["sequence"])).collect();
    assert_eq!(different.len(), 16, "{letters:#?}");
    // Another server is another sink: it takes all.
    let other = self::receiver("");
    let other_to = other.start();
    setup.set_sinks(&[&format!("http://{}/ndjson?format=raw", other.address(0))]);
    let server = setup.start();
    other_to.wait_delivered(50);
    let status = server.wait_status("the others delivered", |status| status["ledger"]["delivered"] == 50);
    assert_balanced(&status);
}

#[test]
fn a_server_that_is_away_gets_everything_when_it_is_back() {
    let receiver = receiver("");
    let setup = poster(&receiver.address(0).to_string(), "/ndjson?format=raw");
    let server = setup.start();
    server.send(0, &lines(0..1000));
    wait_problem(&server, "Connection refused");
    let to = receiver.start();
    server.wait_delivered(1000);
    to.kill();
    server.send(0, &lines(1000..2000));
    wait_problem(&server, "cannot post");
    // What it was given is in its spool.
    let to = receiver.start();
    let status = server.wait_delivered(2000);
    assert!(status["sinks"][0]["problem"].is_string() || status["sinks"][0]["problem"].is_null());
    server.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
    to.wait_delivered(2000);
    assert_numbered_lines(&receiver.written(), 0..2000);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_killed_sender_posts_again_what_was_not_committed() {
    let receiver = receiver("");
    let to = receiver.start();
    let setup = poster(&receiver.address(0).to_string(), "/ndjson?format=raw");
    for round in 0..5_u32 {
        let server = setup.start();
        // Lines are acknowledged by nobody: a kill takes what was in memory.
        let before = server.status()["ledger"]["received"].as_u64().expect("a number");
        server.send(0, &lines(round * 1000..(round + 1) * 1000));
        server.wait_status("all received", |status| status["ledger"]["received"] == before + 1000);
        server.kill();
    }
    let server = setup.start();
    let status = server.wait_status("nothing queued", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(to.stop(), Some(0));
    let written = String::from_utf8(receiver.written()).expect("lines");
    let mut each: Vec<&str> = written.lines().collect();
    each.sort_unstable();
    each.dedup();
    assert_eq!(Some(each.len() as u64), status["ledger"]["received"].as_u64(), "{status:#}");
}

#[test]
fn the_request_has_what_was_configured() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "Bearer sesame\n").expect("a token");
    let headers = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(headers.path(), "X-Scope-OrgID: tenant\nX-Key: open sesame\n").expect("headers");
    let address = listener.local_addr().expect("its own");
    let sink = format!(
        "[[sink]]\nspec = \"http://{address}/in\"\nquery = \"a=1&b=2\"\nauthorization_file = \"{}\"\n\
         headers_file = \"{}\"\n",
        token.path().display(),
        headers.path().display()
    );
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config(&sink);
    setup.set_sinks(&[]);
    let server = setup.start();
    server.send(0, b"hello\n");
    // At first the server does not take it.
    let refused = answer(&listener, "503 Service Unavailable", "come again, open sesame");
    wait_problem(&server, "responds 503 Service Unavailable \"come again, <secret>\"");
    let taken = answer(&listener, "204 No Content", "");
    for head in [refused, taken] {
        assert!(head.starts_with("post /in?a=1&b=2 http/1.1\r\n"), "{head}");
        assert!(head.contains("authorization: bearer sesame\r\n"), "{head}");
        assert!(
            head.contains("x-scope-orgid: tenant\r\n") && head.contains("x-key: open sesame\r\n"),
            "{head}"
        );
        assert!(head.contains("content-type: application/x-ndjson\r\n"), "{head}");
        assert!(head.contains("\"message\":\"hello\""), "{head}");
    }
    server.wait_delivered(1);
    assert!(!setup.log().contains("sesame"));
    assert_eq!(server.stop(), Some(0));
}

/// Reads a request, in small letters, and answers it.
fn answer(listener: &TcpListener, status: &str, body: &str) -> String {
    let (stream, _) = listener.accept().expect("a connection");
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut text).expect("it sends") > 0, "{text}");
    }
    text.make_ascii_lowercase();
    let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let mut bytes = vec![0; length.and_then(|length| length.parse().ok()).expect("a length")];
    reader.read_exact(&mut bytes).expect("a body");
    let response =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    reader.get_mut().write_all(response.as_bytes()).expect("it reads");
    text + &String::from_utf8_lossy(&bytes)
}

#[test]
fn a_server_that_hangs_holds_up_neither_a_reload_nor_a_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("its own").to_string();
    let (connected, connections) = mpsc::sync_channel::<TcpStream>(16);
    std::thread::spawn(move || {
        // Accepts, and answers nothing.
        while let Ok((stream, _)) = listener.accept() {
            if connected.send(stream).is_err() {
                return;
            }
        }
    });
    let setup = poster(&to, "/");
    let server = setup.start();
    server.send(0, &lines(0..10));
    let _first = connections.recv().expect("it posts");
    std::fs::write(setup.path().join("bbq.toml"), "drain_timeout_seconds = 1\nevict_idle_seconds = 17\n")
        .expect("a configuration");
    server.signal(libc::SIGHUP);
    server.wait_log("reloaded");
    assert!(!setup.log().contains("reload refused"), "{}", setup.log());
    let _second = connections.recv().expect("it posts again");
    assert_eq!(server.status()["ledger"]["queued"], 10);
    assert_eq!(server.stop(), Some(0));
}
