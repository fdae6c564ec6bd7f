//! If this fails, a sink with several receivers by HTTP, or of OpenTelemetry logs, loses messages when one of them fails, stands still while
//! another works, or gives up messages that another takes; or a sender of OpenTelemetry logs that is killed loses some.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use crate::authority::Authority;
use crate::forward::{numbers, send};
use crate::grpc_server::{self, Reply};
use crate::http::{lines, wait_dead_letters, wait_problem};
use crate::http_server;
use crate::support::{KilledIfThisFails, PATIENCE, Setup, assert_balanced, pause};

/// The words and paths of the sinks, and the listeners of a bbq that takes what they send.
const WAYS: [(&str, &str, &str); 3] = [
    ("http", "/ndjson?format=raw", "http+tcp://127.0.0.1:{0}"),
    ("otlp+http", "", "otlp+tcp://127.0.0.1:{0}"),
    ("otlp+grpc", "", "otlp+tcp://127.0.0.1:{0}"),
];
/// Those of OpenTelemetry.
const OTLP: [&str; 2] = ["otlp+http", "otlp+grpc"];

/// A bbq that sends to these, one worker: the messages of a test come in order.
fn sender(sink: &str) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}", "bbq+tcp://127.0.0.1:{1}"])
        .config("drain_timeout_seconds = 1\n")
        .with(&["--workers", "1"]);
    setup.set_sinks(&[sink]);
    setup
}

fn texts(setup: &Setup) -> BTreeSet<String> {
    let written = String::from_utf8(setup.written()).expect("text");
    written.lines().map(str::to_owned).collect()
}

#[test]
fn a_receiver_that_is_killed_is_left_for_the_other() {
    const MESSAGES: u32 = 20_000;
    for (word, path, listener) in WAYS {
        let receivers = [Setup::new(&[listener]), Setup::new(&[listener])];
        let [first, second] = [receivers[0].start(), receivers[1].start()];
        let [a, b] = [receivers[0].address(0), receivers[1].address(0)];
        let setup = sender(&format!("{word}://{a},{b}{path}"));
        let server = setup.start();
        server.send(0, b"first\n");
        first.wait_delivered(1);
        server.wait_delivered(1);
        server.send(0, &lines(0..MESSAGES));
        // Somewhere in the middle of it.
        first.wait_status("more", |status| status["ledger"]["received"].as_u64() > Some(1));
        first.kill();
        server.wait_status("all received", |status| status["ledger"]["received"] == MESSAGES + 1);
        server.send(0, b"last\n");
        let status = server.wait_delivered(u64::from(MESSAGES) + 2);
        assert_eq!(status["ledger"]["dropped"], json!({}), "{status:#}");
        server.wait_log("switched to another receiver for the messages");
        server.wait_log(&format!("http://{b}"));
        // It stays with the second one.
        let first = receivers[0].start();
        let before = first.status()["ledger"]["received"].clone();
        server.send(0, b"behind\n");
        server.wait_delivered(u64::from(MESSAGES) + 3);
        assert_eq!(first.status()["ledger"]["received"], before, "{}", setup.log());
        assert_eq!((server.stop(), first.stop(), second.stop()), (Some(0), Some(0), Some(0)));
        let [at_first, at_second] = [texts(&receivers[0]), texts(&receivers[1])];
        assert!(at_first.contains("first") && !at_second.contains("first"), "{word}");
        assert!(at_second.contains("last") && at_second.contains("behind"), "{word}");
        let all: BTreeSet<&String> = at_first.union(&at_second).collect();
        assert_eq!(all.len(), MESSAGES as usize + 3, "{word}: {}", setup.log());
    }
}

#[test]
fn while_all_are_away_the_messages_wait_for_any_of_them() {
    for (word, path, listener) in WAYS {
        let receivers = [Setup::new(&[listener]), Setup::new(&[listener])];
        let [a, b] = [receivers[0].address(0), receivers[1].address(0)];
        // A name that nobody has is the first.
        let setup = sender(&format!("{word}://nobody.invalid:1,{a},{b}{path}"));
        let server = setup.start();
        server.send(0, &lines(0..1000));
        for receiver in ["nobody.invalid:1".to_owned(), a.to_string(), b.to_string()] {
            wait_problem(&server, &format!("cannot post to http://{receiver}/"));
        }
        let second = receivers[1].start();
        server.wait_delivered(1000);
        server.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
        second.kill();
        server.send(0, &lines(1000..2000));
        wait_problem(&server, "Connection refused");
        assert!(server.status()["ledger"]["queued"].as_u64() > Some(0));
        let first = receivers[0].start();
        assert_balanced(&server.wait_delivered(2000));
        let second = receivers[1].start();
        assert_eq!((server.stop(), first.stop(), second.stop()), (Some(0), Some(0), Some(0)));
        let written = texts(&receivers[1]).len() + texts(&receivers[0]).len();
        assert_eq!(written, 2000, "{word}: {}", setup.log());
    }
}

#[test]
fn receivers_that_are_all_away_hold_up_neither_a_reload_nor_a_stop() {
    let away = [Setup::new(&["lines+tcp://127.0.0.1:{0}"]), Setup::new(&["lines+tcp://127.0.0.1:{0}"])];
    // It takes a connection, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hangs = silent.local_addr().expect("its own");
    for (word, path, _) in WAYS {
        let [a, b] = [away[0].address(0), away[1].address(0)];
        let setup = sender(&format!("{word}://{a},nobody.invalid,{b},{hangs}{path}"));
        let server = setup.start();
        server.send(0, &lines(0..10));
        let _connection = silent.accept().expect("it comes around");
        fs::write(setup.path().join("bbq.toml"), "drain_timeout_seconds = 1\nevict_idle_seconds = 17\n")
            .expect("a configuration");
        server.signal(libc::SIGHUP);
        server.wait_log("reloaded");
        assert!(!setup.log().contains("reload refused"), "{}", setup.log());
        let _connection = silent.accept().expect("it comes around again");
        assert_eq!(server.status()["ledger"]["queued"], 10);
        assert_eq!(server.stop(), Some(0));
    }
}

/// How a receiver says no to what a test chooses.
#[derive(Clone, Copy, Debug)]
enum No {
    /// For a minute.
    Busy,
    /// It fails on it.
    Fails,
    /// It closes the connection in the middle of a response.
    Breaks,
}

/// A receiver for the sink `word` which says `no` to texts of which that is `wanted`. Returns its address, and counts the requests.
fn receiver(word: &str, no: No, wanted: fn(&str) -> bool) -> (String, Arc<AtomicU32>) {
    let requests = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&requests);
    let count = move || counted.fetch_add(1, Ordering::Relaxed);
    if word == "otlp+grpc" {
        let (address, _requests) = grpc_server::serve(move |message| {
            count();
            let text = String::from_utf8_lossy(message);
            match no {
                _ if !wanted(&text) => Reply::Taken(Vec::new()),
                No::Fails => Reply::Refused(13, "it failed", Vec::new()),
                No::Busy | No::Breaks => Reply::Refused(14, "busy", Vec::new()),
            }
        });
        return (address, requests);
    }
    let (address, bodies) = http_server::serve(move |text| {
        count();
        let taken = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
        Some(match no {
            _ if !wanted(text) => taken.to_owned(),
            No::Fails => http_server::response("500 Internal Server Error"),
            No::Busy => {
                "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 60\r\nContent-Length: 4\r\n\r\nbusy"
                    .to_owned()
            }
            No::Breaks => "H".to_owned() + &"\n".repeat(3),
        })
    });
    std::thread::spawn(move || bodies.iter().for_each(drop));
    (address, requests)
}

#[test]
fn a_receiver_that_says_no_is_left_for_the_other_at_once() {
    for no in [No::Busy, No::Fails, No::Breaks] {
        for (word, path, _) in WAYS {
            let (a, requests) = receiver(word, no, |_| true);
            let (b, at_other) = receiver(word, no, |_| false);
            let setup = sender(&format!("{word}://{a},{b}{path}"));
            let server = setup.start();
            for part in 0..3 {
                server.send(0, &lines(part * 100..(part + 1) * 100));
                let status = server.wait_delivered(u64::from(part + 1) * 100);
                assert_eq!(status["ledger"]["dropped"], json!({}), "{status:#}");
                // What the first one said was no problem.
                assert_eq!(status["sinks"][0]["problem"], Value::Null, "{status:#}");
            }
            server.wait_log(&format!("http://{a}"));
            assert_eq!(requests.load(Ordering::Relaxed), 1, "{word} {no:?}: {}", setup.log());
            assert!(at_other.load(Ordering::Relaxed) >= 3);
            assert_eq!(server.stop(), Some(0));
        }
    }
}

/// Also when another receiver is away.
#[test]
fn a_message_on_which_every_receiver_fails_is_found_and_kept() {
    for word in OTLP {
        let away = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).address(0).to_string();
        let [a, b] = [(); 2].map(|()| receiver(word, No::Fails, |text| text.contains("line 3")).0);
        for receivers in [format!("{a},{b}"), format!("{a},{away}"), format!("{away},{a}")] {
            let setup = sender(&format!("{word}://{receivers}"));
            let server = setup.start();
            server.send(0, b"good\n");
            server.wait_delivered(1);
            server.send(0, &lines(0..10));
            let status = server.wait_status("settled", |status| {
                status["ledger"]["received"] == 11 && status["ledger"]["queued"] == 0
            });
            assert_balanced(&status);
            assert_eq!(status["ledger"]["dropped"], json!({"refused": 1}), "{receivers}");
            assert_eq!(server.stop(), Some(0), "{}", setup.log());
            let kept = wait_dead_letters(&setup);
            assert_eq!((kept.len(), &kept[0]["message"]), (1, &json!("line 3")));
        }
    }
}

#[test]
fn a_receiver_by_tls_is_checked_by_its_own_name() {
    let authority = Authority::new("a test's authority");
    for word in ["otlp+https", "otlp+grpcs"] {
        let files = "tls_cert={dir}/server-cert.pem&tls_key={dir}/server-key.pem";
        let receivers =
            ["elsewhere", "localhost"].map(|_| Setup::new(&[&format!("otlp+tcp://127.0.0.1:{{0}}?{files}")]));
        // The first one shows the name of another host.
        for (setup, name) in receivers.iter().zip(["elsewhere", "localhost"]) {
            authority.sign(name).write(setup.path(), "server");
        }
        let [first, second] = [receivers[0].start(), receivers[1].start()];
        let mut setup = sender("null:");
        fs::write(setup.path().join("ca.pem"), authority.certificate()).expect("a file");
        let [a, b] = [receivers[0].address(0).port(), receivers[1].address(0).port()];
        setup.set_sinks(&[&format!("{word}://localhost:{a},localhost:{b}?tls_ca={{dir}}/ca.pem")]);
        let server = setup.start();
        server.send(0, &lines(0..10));
        assert_balanced(&server.wait_delivered(10));
        server.wait_log("check tls_ca and the host's name");
        second.wait_delivered(10);
        assert_eq!((server.stop(), first.stop(), second.stop()), (Some(0), Some(0), Some(0)));
    }
}

/// The cursor of the only sink, as it is on disk.
pub(crate) fn cursor(setup: &Setup) -> Option<String> {
    let mut files = fs::read_dir(setup.data().join("cursors")).expect("cursors").flatten();
    // One that is being written has another extension.
    let cursor = files.find(|file| file.path().extension().is_some_and(|extension| extension == "cursor"))?;
    fs::read_to_string(cursor.path()).ok()
}

#[test]
fn a_sender_of_log_records_that_is_killed_loses_none() {
    const COUNT: u32 = 500_000;
    const KILLS: u32 = 6;
    for word in OTLP {
        let receiver = Setup::new(&["otlp+tcp://127.0.0.1:{0}"]);
        let mut to = receiver.start();
        let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 1\n");
        setup.set_sinks(&[&format!("{word}://{}", receiver.address(0))]);
        let mut server = setup.start();
        let mut client = send(&setup, &numbers(COUNT));
        let _killed = KilledIfThisFails::of(&client);
        for kill in 0..KILLS {
            // Somewhere in the middle, and right after a commit: it must not cover what is on its way.
            let before = to.status()["ledger"]["received"].as_u64().expect("a number");
            to.wait_status("more", |status| {
                status["ledger"]["received"].as_u64() > Some(before.min(u64::from(COUNT) - 1))
            });
            let committed = cursor(&setup);
            server.wait_status("a commit", |status| {
                cursor(&setup) != committed || status["ledger"]["delivered"] == COUNT
            });
            if kill % 2 == 0 {
                // With what it has not on disk.
                to.kill();
                server.kill();
                to = receiver.start();
            } else {
                server.kill();
            }
            server = setup.start();
        }
        let start = Instant::now();
        while client.try_wait().expect("it was ours").is_none() {
            assert!(start.elapsed() < PATIENCE, "the client does not end");
            pause();
        }
        assert!(client.wait().expect("it was ours").success());
        // Acknowledged means on disk; what was delivered before a kill is counted once, too.
        let status = server.wait_delivered(COUNT.into());
        assert_eq!(status["ledger"]["dropped"], json!({}), "{status:#}");
        assert_eq!((server.stop(), to.stop()), (Some(0), Some(0)), "{}", setup.log());
        let written = String::from_utf8(receiver.written()).expect("text");
        let all: BTreeSet<&str> = written.lines().collect();
        assert_eq!(all.len(), COUNT as usize, "{word}: {}", setup.log());
    }
}
