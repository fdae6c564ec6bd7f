//! If this fails, a filter of the tail hides what somebody looks for, or shows something else.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::net::UdpSocket;
use std::process::Command;

use serde_json::{Value, json};

use super::tail::Tail;
use crate::support::session::{Session, batch};
use crate::support::{BBQ, Server, Setup, refused_start};
use bbq_wire::StreamId;

const STREAM: StreamId = StreamId([0xab; 16]);

/// One of each, so that what is shown between two of the same is noticed.
fn send_round(server: &Server<'_>, socket: &UdpSocket, round: u64) {
    let total = |status: &serde_json::Value| status["spool"]["lanes"][0]["records"].as_u64();
    let mut expected = total(&server.status()).expect("a number");
    let mut one = |send: &dyn Fn()| {
        send();
        expected += 1;
        server.wait_status("the next message", |status| total(status) == Some(expected));
    };
    one(&|| server.send(0, b"GET /items 500 in 12 ms\n"));
    one(&|| server.send(0, b"GET /items 200 in 3 ms\n"));
    for text in ["<34>auth crit", "<27>daemon err", "<28>daemon warning", "<30>daemon info", "no priority"] {
        one(&|| {
            let _bytes = socket.send_to(text.as_bytes(), server.setup.address(1)).expect("it is sent");
        });
    }
    one(&|| {
        let (mut session, last) = Session::open(server.setup.address(2), STREAM);
        assert_eq!(last, round);
        session.write(&batch(STREAM, round + 1, &["of a client"]));
        session.acknowledged(round + 1);
    });
}

#[test]
fn each_shows_what_it_says_and_nothing_else() {
    let setup = Setup::new(&[
        "lines+tcp://127.0.0.1:{0}?name=web",
        "syslog+udp://127.0.0.1:{1}?name=sys",
        "bbq+tcp://127.0.0.1:{2}?name=own",
    ])
    .with(&["--workers", "1"]);
    let server = setup.start();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for round in 0..2 {
        send_round(&server, &socket, round);
    }
    let own = socket.local_addr().expect("an address").to_string();
    let stream = STREAM.to_string();
    let syslog = ["<34>auth crit", "<27>daemon err", "<28>daemon warning", "<30>daemon info", "no priority"];
    for (arguments, messages) in [
        (vec!["--listener", "web"], &["GET /items 500 in 12 ms", "GET /items 200 in 3 ms"][..]),
        (vec!["--peer", &*own], &syslog),
        (vec!["--stream", &stream], &["of a client"]),
        (vec!["--severity", "err"], &syslog[..2]),
        (vec!["--severity", "err..warning"], &syslog[1..3]),
        (vec!["--facility", "daemon"], &syslog[1..4]),
        (vec!["--facility", "daemon", "--severity", "err", "--peer", "127.0.0.1"], &syslog[1..2]),
        (vec!["--text", "items 500"], &["GET /items 500 in 12 ms"]),
        (vec!["--grep", "in [0-9]{2} ms$"], &["GET /items 500 in 12 ms"]),
        (vec!["--grep", "(?i)CLIENT|crit"], &["<34>auth crit", "of a client"]),
        (vec!["--where", "listener == 'sys' && has(severity) && severity <= 3"], &syslog[..2]),
        (
            vec![
                "--parse",
                "/ (?<status>[0-9]+) in/",
                "--where",
                "has(parsed.status) && int(parsed.status) >= 500",
            ],
            &["GET /items 500 in 12 ms"],
        ),
    ] {
        let tail = Tail::start(&setup, &[&["--json", "--from", "beginning"], &*arguments].concat());
        assert_eq!(tail.messages(2 * messages.len()), [messages, messages].concat(), "{arguments:?}");
    }
}

#[test]
fn messages_for_which_an_expression_fails_are_shown_and_counted() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let server = setup.start();
    server.send(0, b"level=warn n=1\nlevel=info n=2\nn=3\n");
    server.wait_delivered(3);
    let arguments =
        ["--json", "--from", "beginning", "--parse", "logfmt", "--where", "parsed.level == 'warn'"];
    let tail = Tail::start(&setup, &arguments);
    let lines: Vec<Value> = (0..2).map(|_| serde_json::from_str(&tail.line()).expect("JSON")).collect();
    let found: Vec<_> = lines.iter().map(|line| (&line["message"], &line["parsed"])).collect();
    let expected = [
        (&json!("level=warn n=1"), &json!({ "level": "warn", "n": "1" })),
        (&json!("n=3"), &json!({ "n": "3" })),
    ];
    assert_eq!(found, expected);
    let warning = tail.warning();
    assert!(warning.contains("--where failed for 1 message") && warning.contains("level"), "{warning}");
    let log = setup.log();
    assert!(!log.contains("cannot evaluate"), "a viewer's expression is in the log: {log}");
}

#[test]
fn one_that_cannot_be_is_refused_with_what_to_write() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let _server = setup.start();
    for (arguments, says) in [
        (["--grep", "["], "--grep=[: it is not a regular expression: unclosed character class"),
        (["--severity", "loud"], "--severity=loud: use emerg, alert"),
        (["--from", "soon"], "use now, beginning"),
        (["--peer", "localhost"], "in numbers"),
        (
            ["--where", "sverity <= 4"],
            "--where: column 1: \"sverity\" is not a name (did you mean \"severity\"?)",
        ),
        (["--where", "parsed.level == 'x'"], "nothing is parsed; write parse"),
        (["--where", "severity <= 'x'"], "where: column 10: an integer does not compare with a text"),
        (["--parse", "xml"], "json, logfmt, syslog or /PATTERN/"),
    ] {
        let mut command = Command::new(BBQ);
        let (code, said) = refused_start(command.args(["tail", "--admin", &setup.admin()]).args(arguments));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
    let nowhere = crate::support::free_ports(1)[0];
    let (code, said) =
        refused_start(Command::new(BBQ).args(["tail", "--admin", &format!("127.0.0.1:{nowhere}")]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("bbq serve"), "{said}");
}
