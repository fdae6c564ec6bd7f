//! If this fails, messages that are posted to a server are lost, come twice without a kill, or stop behind one that the server refuses;
//! or a server that hangs holds up a reload or a stop.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use crate::support::client::assert_numbered_lines;
use crate::support::{Server, Setup, assert_balanced};

/// A second bbq with an HTTP listener.
fn receiver(query: &str) -> Setup {
    Setup::new(&[&format!("http+tcp://127.0.0.1:{{0}}{query}")])
}

/// A bbq that posts to it.
fn poster(to: &str, query: &str) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 1\n");
    setup.set_sinks(&[&format!("http://{to}{query}")]);
    setup
}

fn lines(numbers: std::ops::Range<u32>) -> Vec<u8> {
    numbers.flat_map(|number| format!("line {number}\n").into_bytes()).collect()
}

fn wait_problem(server: &Server<'_>, words: &str) {
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
    let address = listener.local_addr().expect("its own");
    let sink = format!(
        "[[sink]]\nspec = \"http://{address}/in\"\nquery = \"a=1&b=2\"\nauthorization_file = \"{}\"\n",
        token.path().display()
    );
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config(&sink);
    setup.set_sinks(&[]);
    let server = setup.start();
    server.send(0, b"hello\n");
    // At first the server does not take it.
    let mut head = answer(&listener, "503 Service Unavailable", "come again");
    wait_problem(&server, "responds 503 Service Unavailable \"come again\"");
    for _ in 0..2 {
        assert!(head.starts_with("post /in?a=1&b=2 http/1.1\r\n"), "{head}");
        assert!(head.contains("authorization: bearer sesame\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-ndjson\r\n"), "{head}");
        assert!(head.contains("\"message\":\"hello\""), "{head}");
        head = answer(&listener, "204 No Content", "");
        if server.status()["ledger"]["delivered"] == 1 {
            break;
        }
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
