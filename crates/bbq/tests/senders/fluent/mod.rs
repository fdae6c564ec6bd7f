//! If this fails, what Fluentd, Fluent Bit or docker sends is lost, stored twice, acknowledged too early, or taken from anybody.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

mod client;

use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use serde_json::Value;

use crate::support::client::connect_from;
use crate::support::{Server, Setup, assert_balanced};
use client::{Client, Packed, array, bytes, chunk, entry, gzip, map, number, packed, text, time};

const LISTENER: &str = "fluent+tcp://127.0.0.1:{0}";

/// The messages of `first..=last`.
fn names(first: u32, last: u32) -> Vec<String> {
    (first..=last).map(|number| format!("message {number}")).collect()
}

/// A message with these entries.
fn forward(messages: &[String], option: &[Packed]) -> Packed {
    let entries: Vec<Packed> = messages.iter().map(|message| entry(message)).collect();
    array(&[&[text("app.web"), array(&entries)], option].concat())
}

fn lines(messages: &[String]) -> String {
    messages.iter().map(|message| format!("{message}\n")).collect()
}

fn written(setup: &Setup) -> String {
    String::from_utf8_lossy(&setup.written()).into_owned()
}

#[test]
fn the_four_modes_are_stored_with_times_and_fields() {
    let setup = Setup::new(&[LISTENER]).sink_query("?format=json");
    let server = setup.start();
    let mut client = Client::new(&setup);
    let record = map(&[("message", text("one")), ("n", number(7)), ("k8s", map(&[("pod", text("web-1"))]))]);
    client.send(&array(&[text("app"), number(1_700_000_000), record]));
    client.send(&forward(&names(2, 3), &[]));
    let stream = packed(["four", "five"]);
    assert!(client.acknowledged(&array(&[text("app"), bytes(&stream), chunk("packed")]), "packed"));
    let compressed = [gzip(&packed(["six"])), gzip(&packed(["seven"]))].concat();
    let option = map(&[("compressed", text("gzip")), ("chunk", text("gz")), ("size", number(2))]);
    assert!(client.acknowledged(&array(&[text("app"), bytes(&compressed), option]), "gz"));
    client.send(&[0xc0]);
    let message = array(&[text("app"), time(1, 0), map(&[("user", number(1))]), chunk("json")]);
    assert!(client.acknowledged(&message, "json"));
    drop(client);
    let status = server.wait_delivered(8);
    assert_eq!(status["listeners"][0]["ledger"]["received"], 8, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    let text = written(&setup);
    let found: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |message: &str| found.iter().find(|line| line["message"] == message).expect(message);
    assert_eq!(of("one")["written"], "2023-11-14T22:13:20.000000000Z");
    let fields = &of("one")["fields"];
    assert_eq!((&fields["fluent.tag"], &fields["n"]), (&"app".into(), &"7".into()), "{fields}");
    assert_eq!(fields["k8s"], "{\"pod\":\"web-1\"}");
    assert_eq!(of("message 2")["fields"]["fluent.tag"], "app.web");
    assert_eq!(of("seven")["written"], "2023-11-14T22:13:20.000000005Z");
    assert_eq!(of("seven")["fields"]["source"], "stdout");
    assert_eq!(of("{\"user\":1}")["fields"]["fluent.tag"], "app");
}

#[test]
fn a_chunk_that_comes_again_is_stored_once_also_after_a_kill() {
    let setup = Setup::new(&[LISTENER]).with(&["--workers", "3"]);
    let server = setup.start();
    let first = forward(&names(1, 5), &[chunk("a")]);
    for _ in 0..5 {
        // Each connection may be of another worker.
        assert!(Client::new(&setup).acknowledged(&first, "a"));
    }
    // The same name, and more entries: the ones that are new.
    assert!(Client::new(&setup).acknowledged(&forward(&names(1, 7), &[chunk("a")]), "a"));
    // The same name at another tag is another chunk.
    let other = array(&[text("other"), array(&[entry("message 8")]), chunk("a")]);
    assert!(Client::new(&setup).acknowledged(&other, "a"));
    server.kill();
    let server = setup.start();
    for _ in 0..3 {
        assert!(Client::new(&setup).acknowledged(&first, "a"));
        assert!(Client::new(&setup).acknowledged(&other, "a"));
        assert!(Client::new(&setup).acknowledged(&forward(&names(9, 9), &[chunk("b")]), "b"));
    }
    server.wait_delivered(9);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let text = written(&setup);
    let mut sorted: Vec<&str> = text.lines().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, names(1, 9));
}

/// A chunk is cut into several batches. A kill in the middle of many of them leaves some of their batches.
#[test]
fn large_chunks_that_are_sent_until_they_are_acknowledged_are_stored_once_through_kills() {
    const CHUNKS: u32 = 12;
    const ENTRIES: u32 = 20_000;
    let setup = Setup::new(&[LISTENER]);
    let mut server = setup.start();
    for number in 0..CHUNKS {
        let messages = names(number * ENTRIES + 1, (number + 1) * ENTRIES);
        let (name, entries) = (format!("chunk {number}"), packed(messages.iter().map(String::as_str)));
        let option = map(&[("chunk", text(&name))]);
        let message = array(&[text("app"), bytes(&entries), option]);
        if number % 3 == 1 {
            // What was not acknowledged may be stored in part.
            let mut client = Client::new(&setup);
            client.send(&message);
            server.kill();
            server = setup.start();
        }
        assert!(Client::new(&setup).acknowledged(&message, &name), "{}", setup.log());
    }
    let status = server.wait_status("delivery", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    let text = written(&setup);
    let mut found: Vec<u32> = text.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect();
    assert_eq!(found.len() as u32, CHUNKS * ENTRIES);
    found.sort_unstable();
    assert!(found.iter().copied().eq(1..=CHUNKS * ENTRIES));
}

#[test]
fn only_a_client_with_the_shared_key_may_send() {
    let setup = Setup::new(&["fluent+tcp://127.0.0.1:{0}?shared_key_file={dir}/key"]);
    fs::write(setup.path().join("key"), "the shared key\n").expect("a file");
    let server = setup.start();
    let mut client = Client::new(&setup);
    assert!(client.ping("the shared key", ("", "")));
    assert!(client.acknowledged(&forward(&names(1, 2), &[chunk("a")]), "a"));
    let mut wrong = Client::new(&setup);
    assert!(!wrong.ping("another key", ("", "")));
    assert!(String::from_utf8_lossy(&wrong.rest()).contains("shared_key mismatch"));
    // Before the next one is closed: lines about a listener's connections are limited in number.
    server.wait_log("the shared key of the client is another one");
    let mut without = Client::new(&setup);
    without.helo();
    without.send(&forward(&names(3, 4), &[chunk("b")]));
    assert_eq!(without.rest(), b"");
    server.wait_delivered(2);
    assert!(!setup.log().contains("the shared key\n") && !setup.log().contains("another key"));
    let status = server.status().to_string();
    assert!(!status.contains("the shared key"));
    assert_eq!(server.stop(), Some(0));
    assert_eq!(written(&setup), lines(&names(1, 2)));
}

#[test]
fn a_listener_with_users_asks_for_a_password() {
    let setup = Setup::new(&["fluent+tcp://127.0.0.1:{0}?shared_key_file={dir}/key&users_file={dir}/users"]);
    fs::write(setup.path().join("key"), "the shared key").expect("a file");
    fs::write(setup.path().join("users"), "till-4 sesame\n").expect("a file");
    let server = setup.start();
    for (user, password, may_send) in
        [("till-4", "sesame", true), ("till-4", "wrong", false), ("till-5", "sesame", false), ("", "", false)]
    {
        let mut client = Client::new(&setup);
        assert_eq!(client.ping("the shared key", (user, password)), may_send, "{user}");
        if may_send {
            assert!(client.acknowledged(&forward(&names(1, 1), &[chunk("a")]), "a"));
        }
    }
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn what_speaks_something_else_is_closed_and_counted() {
    let setup = Setup::new(&[LISTENER]);
    let server = setup.start();
    let bomb = {
        let zeros = gzip(&vec![0xc0; 64 << 20]);
        array(&[text("app"), bytes(&zeros), map(&[("compressed", text("gzip"))])])
    };
    let nested = {
        let record: Vec<u8> = [&[0x91].repeat(1_000_000)[..], &[0xc0]].concat();
        array(&[text("app"), number(1), record])
    };
    let hostile: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0x92, 0xa1, b't', 0xc6, 0xff, 0xff, 0xff, 0xff],
        vec![0x92, 0xa1, b't', 0xdd, 0xff, 0xff, 0xff, 0xff],
        vec![0xc1],
        array(&[text("app"), array(&[number(1)])]),
        array(&[text("app"), bytes(b"\x92\x01")]),
        array(&[text("app"), bytes(b"no gzip"), map(&[("compressed", text("gzip"))])]),
        bomb,
        nested,
    ];
    let count = hostile.len();
    for bytes in hostile {
        let mut client = Client::new(&setup);
        // It may be closed before everything is sent.
        let _sent = client.0.write_all(&bytes);
        assert_eq!(client.rest(), b"");
    }
    // Others are not concerned.
    assert!(Client::new(&setup).acknowledged(&forward(&names(1, 1), &[chunk("a")]), "a"));
    let status =
        server.wait_status("refusals", |status| status["listeners"][0]["ledger"]["refused"] == count);
    assert_balanced(&status);
    server.wait_log("the client sends text");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(written(&setup), lines(&names(1, 1)));
}

#[test]
fn rules_see_the_fields_and_a_chunk_is_still_acknowledged() {
    let setup =
        Setup::new(&["fluent+tcp://127.0.0.1:{0}?where=fields.source == 'stderr'&redact=s/secret/***/"]);
    let server = setup.start();
    let record = |message: &str, source: &str| {
        array(&[number(1), map(&[("log", text(message)), ("source", text(source))])])
    };
    let entries = array(&[record("a secret", "stderr"), record("b", "stdout"), record("c", "stderr")]);
    assert!(Client::new(&setup).acknowledged(&array(&[text("t"), entries, chunk("a")]), "a"));
    let all_left_out = array(&[text("t"), array(&[record("d", "stdout")]), chunk("b")]);
    assert!(Client::new(&setup).acknowledged(&all_left_out, "b"));
    let status = server.wait_delivered(2);
    assert_eq!(status["listeners"][0]["ledger"]["filtered"], 2, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(written(&setup), "a ***\nc\n");
}

#[test]
fn a_long_record_is_left_out_and_counted_and_the_others_are_stored() {
    let setup = Setup::new(&["fluent+tcp://127.0.0.1:{0}?message_bytes_max=100"]);
    let server = setup.start();
    let messages = ["a".to_owned(), "x".repeat(101), "c".to_owned()];
    for _ in 0..2 {
        assert!(Client::new(&setup).acknowledged(&forward(&messages, &[chunk("a")]), "a"));
    }
    let status = server.wait_status("delivery", |status| status["ledger"]["delivered"] == 2);
    assert_balanced(&status);
    // Once, although it came twice.
    assert_eq!(status["ledger"]["dropped"]["oversize"], 1, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(written(&setup), "a\nc\n");
}

/// Some clients name a chunk by a digest of its content, so two outputs of one client send equal chunks.
#[test]
fn equal_chunks_of_two_listeners_and_of_two_hosts_are_stored_each() {
    let setup = Setup::new(&["fluent+tcp://127.0.0.1:{0}?name=one", "fluent+tcp://127.0.0.1:{1}?name=two"]);
    let server = setup.start();
    let message = forward(&names(1, 2), &[chunk("a")]);
    for listener in [0, 1, 0, 1] {
        assert!(Client::of(&setup, listener).acknowledged(&message, "a"));
    }
    for _ in 0..2 {
        let mut other = Client(connect_from(Ipv4Addr::new(127, 0, 0, 2), setup.address(0)));
        assert!(other.acknowledged(&message, "a"));
    }
    let status = server.wait_delivered(6);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    let text = written(&setup);
    for message in names(1, 2) {
        assert_eq!(text.lines().filter(|line| *line == message).count(), 3, "{text}");
    }
}

/// What is left out has no number, so another limit numbers the records of a chunk otherwise.
#[test]
fn a_chunk_that_comes_again_under_another_limit_loses_nothing() {
    let long = "x".repeat(101);
    let message = forward(&["a".to_owned(), long.clone(), "c".to_owned()], &[chunk("a")]);
    let mut setup = Setup::new(&["fluent+tcp://127.0.0.1:{0}?name=one&message_bytes_max=100"]);
    for (limit, stored) in
        [("message_bytes_max=100", "a\nc\n"), ("message_bytes_max=100&on_oversize=cut", "x\n"), ("", &long)]
    {
        setup.set_listen(&[&format!("fluent+tcp://127.0.0.1:{{0}}?name=one&{limit}")]);
        let server = setup.start();
        assert!(Client::new(&setup).acknowledged(&message, "a"));
        server.wait_status("delivery", |status| {
            status["ledger"]["received"].as_u64() > Some(0) && status["ledger"]["queued"] == 0
        });
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        assert!(written(&setup).contains(stored), "{limit}: {}", written(&setup));
    }
}

#[test]
fn a_message_that_ends_in_the_middle_is_counted_unless_its_client_sends_it_again() {
    let setup = Setup::new(&[LISTENER]);
    let server = setup.start();
    let message = forward(&names(1, 1), &[chunk("a")]);
    let half = &message[..message.len() / 2];
    let mut client = Client::new(&setup);
    assert!(client.acknowledged(&message, "a"));
    client.send(half);
    drop(client);
    Client::new(&setup).send(half);
    let status = server.wait_status("the end", |status| status["ledger"]["dropped"]["incomplete"] == 1);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_stop_takes_what_was_sent_and_acknowledges_it() {
    let setup = Setup::new(&[LISTENER]);
    for round in 0..5 {
        let server = setup.start();
        let (unawaited, awaited) = (names(10 * round, 10 * round + 4), names(10 * round + 5, 10 * round + 9));
        let mut client = Client::new(&setup);
        // The server knows the connection.
        let name = format!("first {round}");
        assert!(client.acknowledged(&array(&[text("t"), array(&[]), chunk(&name)]), &name));
        let last = format!("last {round}");
        // At once: the system keeps a second small write back until the first one is acknowledged (RFC 896).
        client.send(&[forward(&unawaited, &[]), forward(&awaited, &[chunk(&last)])].concat());
        server.signal(libc::SIGTERM);
        let answer = client.rest();
        assert!(answer.ends_with(&text(&last)), "{answer:02x?}\n{}", setup.log());
        assert_eq!(server.wait_end(), Some(0));
        let text = written(&setup);
        for message in unawaited.iter().chain(&awaited) {
            assert_eq!(text.lines().filter(|line| line == message).count(), 1, "{message}\n{}", setup.log());
        }
    }
}

#[test]
fn a_full_spool_holds_senders_back_and_nothing_is_lost() {
    const MESSAGES: u32 = 60_000;
    const CONFIG: &str = "[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"4MiB\"\n";
    // So that they do not fit into the spool and the buffers of sockets.
    let long = |first: u32| -> Vec<String> {
        let padding = "x".repeat(200);
        names(first, first + 999).into_iter().map(|name| format!("{name} {padding}")).collect()
    };
    let mut setup = Setup::new(&[LISTENER]).with(&["--workers", "1"]).config(CONFIG);
    setup.set_sinks(&["stdout:"]);
    let mut server: Server<'_> = setup.start_writing_to(Stdio::piped());
    let mut pipe = server.child.stdout.take().expect("piped");
    std::thread::scope(|scope| {
        let _guard = server.killed_if_this_fails();
        // One without and one with acknowledgements; the first message of each that has no room waits.
        let unawaited = scope.spawn(|| {
            let mut client = Client::new(&setup);
            for first in (0..MESSAGES).step_by(1000) {
                client.send(&forward(&long(first), &[]));
            }
        });
        let awaited = scope.spawn(|| {
            for first in (MESSAGES..2 * MESSAGES).step_by(1000) {
                let (name, messages) = (format!("chunk {first}"), long(first));
                while !Client::new(&setup).acknowledged(&forward(&messages, &[chunk(&name)]), &name) {}
            }
        });
        server.wait_status("a full spool", |status| {
            status["spool"]["lanes"][0]["condition"] == "waiting-for-space"
        });
        assert!(!awaited.is_finished());
        let reader = scope.spawn(move || {
            let mut output = String::new();
            std::io::Read::read_to_string(&mut pipe, &mut output).expect("text");
            output
        });
        unawaited.join().expect("it sends");
        awaited.join().expect("it sends");
        server.wait_delivered(u64::from(2 * MESSAGES));
        server.signal(libc::SIGTERM);
        let output = reader.join().expect("it reads");
        let mut found: Vec<u32> =
            output.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect();
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..2 * MESSAGES), "{} of {}", found.len(), 2 * MESSAGES);
    });
    assert_eq!(server.wait_end(), Some(0));
}

#[test]
fn a_reload_with_another_key_closes_connections_and_loses_nothing() {
    let setup = Setup::new(&["fluent+tcp://127.0.0.1:{0}?shared_key_file={dir}/key"]);
    let key = setup.path().join("key");
    fs::write(&key, "old key").expect("a file");
    let server = setup.start();
    let mut client = Client::new(&setup);
    assert!(client.ping("old key", ("", "")));
    assert!(client.acknowledged(&forward(&names(1, 1), &[chunk("a")]), "a"));
    fs::write(&key, "new key").expect("a file");
    server.signal(libc::SIGHUP);
    assert_eq!(client.rest(), b"");
    // By every worker, not only by this client's.
    server.wait_log("reloaded");
    let mut old = Client::new(&setup);
    assert!(!old.ping("old key", ("", "")));
    let mut new = Client::new(&setup);
    assert!(new.ping("new key", ("", "")));
    assert!(new.acknowledged(&forward(&names(2, 2), &[chunk("b")]), "b"));
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_unix_socket_takes_the_same() {
    let setup = Setup::new(&["fluent+unix://{dir}/fluent.sock"]);
    let server = setup.start();
    let mut stream = UnixStream::connect(setup.path().join("fluent.sock")).expect("it listens");
    stream.write_all(&forward(&names(1, 3), &[])).expect("it reads");
    drop(stream);
    server.wait_delivered(3);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(written(&setup), lines(&names(1, 3)));
}
