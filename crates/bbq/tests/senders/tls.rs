//! If this fails, messages that are sent by TLS are lost or stored twice, or `bbq send` does not say why they are not sent.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::Command;

use bbq_client::{OnFull, Sender};

use crate::authority::{Authority, BOTH, Issued, ONLY_12, ONLY_13};
use crate::support::{BBQ, PATIENCE, Setup, refused_start, run};
use crate::tls_proxy::TlsProxy;

const MESSAGES: u64 = 100_000;
const KILLS: u64 = 3;

/// Sends messages by TLS while the server is killed so often, and checks that each is stored once.
fn deliver(versions: &[&'static rustls::SupportedProtocolVersion], kills: u64) {
    let authority = Authority::new("the CA");
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let mut server = setup.start();
    let tls = authority.issue("127.0.0.1").server(versions, None);
    let proxy = TlsProxy::start(tls, setup.address(0));
    let sender = Sender::builder()
        .server(proxy.url().parse().expect("an address"))
        .tls_ca(authority.ca())
        .on_full(OnFull::Block(Some(PATIENCE)))
        // Small, so that much is left to send at each kill.
        .queue_bytes_max(1024 * 1024)
        .start()
        .expect("it starts");
    let mut sent = 0;
    for part in 1..=kills + 1 {
        let until = MESSAGES * part / (kills + 1);
        (sent..until)
            .for_each(|number| sender.send(format!("{number} {number:0>90}").as_bytes()).expect("room"));
        sent = until;
        if part <= kills {
            server.kill();
            server = setup.start();
        }
    }
    let counters = sender.close(PATIENCE).expect("everything is acknowledged");
    assert_eq!((counters.acknowledged, counters.dropped.total()), (MESSAGES, 0), "{counters:?}");
    assert!(counters.reconnects >= kills, "{counters:?}");
    server.wait_delivered(MESSAGES);
    assert_eq!(server.stop(), Some(0));
    let written = String::from_utf8(setup.written()).expect("text");
    let mut seen = vec![0_u8; MESSAGES as usize];
    for line in written.lines() {
        let number = line.split(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("a number");
        assert_eq!(line, format!("{number} {number:0>90}"));
        seen[number as usize] += 1;
    }
    assert!(seen.iter().all(|&times| times == 1));
}

#[test]
fn a_hundred_thousand_messages_arrive_once_by_every_version() {
    for versions in [ONLY_12, ONLY_13] {
        deliver(versions, 0);
    }
}

#[test]
fn a_server_that_is_killed_three_times_has_each_message_once() {
    deliver(BOTH, KILLS);
}

/// `bbq send` with these options; it fails.
fn refused(options: &[&str]) -> (Option<i32>, String) {
    refused_start(Command::new(BBQ).arg("send").args(options))
}

#[test]
fn bbq_send_sends_by_tls_and_says_why_it_does_not() {
    let authority = Authority::new("the CA");
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let proxy =
        TlsProxy::start(authority.issue("logs.example").server(BOTH, Some(&authority)), setup.address(0));
    let Issued { cert, key } = authority.issue("a client");
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let (to, ca, cert, key) = (proxy.url(), text(&authority.ca()), text(&cert), text(&key));
    let options = [
        "--to",
        &to,
        "--tls-ca",
        &ca,
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--tls-server-name",
        "logs.example",
    ];
    let output = run(Command::new(BBQ).arg("send").args(options), b"one\ntwo\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("2 messages acknowledged, 8 B read, "), "{said:?}");
    server.wait_delivered(2);
    assert_eq!(setup.written(), b"one\ntwo\n");

    let file = setup.path().join("lines");
    fs::write(&file, "three\n").expect("it can be written");
    let file = text(&file);
    let plain = format!("bbq://{}", setup.address(0));
    let wrong_port = format!("bbq+tls://{}", setup.address(0));
    for (options, code, words) in [
        (
            &["--to", &to, &file][..],
            1,
            "issued by none of the trusted CAs, the system's (--tls-ca is not set); set --tls-ca to",
        ),
        (&["--to", &to, "--tls-ca", &ca, &file], 1, "is for another name"),
        (
            &[&options[..4], &["--tls-server-name", "logs.example", &file]].concat(),
            1,
            "demands a client certificate; set --tls-cert and --tls-key",
        ),
        (&["--to", &wrong_port, "--tls-ca", &ca, &file], 1, "it does not answer with TLS; write bbq://"),
        (
            &["--to", &plain.replace(&setup.address(0).to_string(), &to[10..]), &file],
            1,
            "it speaks TLS; write bbq+tls://",
        ),
        (&["--to", &to, "--tls-ca", "missing.pem", &file], 2, ": --tls-ca missing.pem: it cannot be read"),
        (
            &["--to", &plain, "--tls-ca", &ca, &file],
            2,
            "no server is reached over TLS; write bbq+tls://HOST:PORT",
        ),
    ] {
        let (ended, said) = refused(options);
        assert!(ended == Some(code) && said.contains(words), "{options:?}: {ended:?}, {said}");
    }
    server.wait_delivered(2);
}
