//! If this fails, somebody sends who may not, a client that is refused holds the server's memory, or the log does not say what to
//! do.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::authority::Authority;
use crate::client::{Client, TLS, setup};
use crate::support::{PATIENCE, Server, Setup};

fn failed(server: &Server<'_>, count: u64) {
    server.wait_status(&format!("{count} failed"), |status| status["listeners"][0]["tls"]["failed"] == count);
}

/// The log is limited to a line a minute for each listener, so each case has a server of its own.
fn refuses(listen: &str, reason: &str, client: impl FnOnce(&Setup, &Authority)) {
    let (setup, authority) = setup(&[&format!(
        "{listen}?{TLS}{}",
        if reason.contains("client's") || reason.contains("no certificate") {
            "&tls_client_ca={dir}/ca.pem"
        } else {
            ""
        }
    )]);
    let server = setup.start();
    client(&setup, &authority);
    failed(&server, 1);
    server.wait_log(reason);
    setup.wait_log("TLS handshake failed");
    // Others are served as before.
    let own = authority.sign("a client");
    Client::with(&authority, Some(&own)).connect(setup.address(0)).expect("TLS");
    server.wait_status("the next", |status| status["listeners"][0]["tls"]["handshakes"] == 1);
    assert_eq!(server.status()["ledger"]["received"], 0);
}

/// Sends, whatever becomes of it.
fn try_to_send(client: &Client, setup: &Setup) {
    if let Ok(mut stream) = client.connect(setup.address(0)) {
        let _refused = stream.write_all(b"not allowed\n").and_then(|()| stream.flush());
        // Until the server has ended it.
        let mut rest = Vec::new();
        let _refused = stream.read_to_end(&mut rest);
    }
}

const LISTENERS: [&str; 3] =
    ["lines+tcp://127.0.0.1:{0}", "bbq+tcp://127.0.0.1:{0}", "http+tcp://127.0.0.1:{0}"];

#[test]
fn a_client_without_a_certificate() {
    for listen in LISTENERS {
        refuses(listen, "the client sent no certificate", |setup, authority| {
            try_to_send(&Client::new(authority), setup);
        });
    }
}

#[test]
fn an_address_that_fails_again_and_again_is_a_line_a_minute() {
    let (setup, authority) = setup(&[&format!("{}?{TLS}&tls_client_ca={{dir}}/ca.pem", LISTENERS[0])]);
    let server = setup.start();
    for _ in 0..20 {
        try_to_send(&Client::new(&authority), &setup);
    }
    failed(&server, 20);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.log().matches("TLS handshake failed").count(), 1, "{}", setup.log());
}

#[test]
fn a_client_with_a_certificate_of_another_authority_or_an_expired_one() {
    refuses(LISTENERS[0], "no CA in tls_client_ca issued the client's certificate", |setup, authority| {
        let own = Authority::new("another authority").sign("a client");
        try_to_send(&Client::with(authority, Some(&own)), setup);
    });
    refuses(LISTENERS[0], "the client's certificate has expired", |setup, authority| {
        let own = authority.sign_until("a client", 2021);
        try_to_send(&Client::with(authority, Some(&own)), setup);
    });
}

#[test]
fn a_client_that_does_not_trust_the_server() {
    refuses(LISTENERS[0], "the client refuses the server", |setup, _| {
        let error = Client::new(&Authority::new("another")).connect(setup.address(0)).expect_err("unknown");
        assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    });
    refuses(LISTENERS[0], "the client refuses the server", |setup, authority| {
        let client = Client::new(authority).asking_for("elsewhere");
        let error = client.connect(setup.address(0)).expect_err("another name");
        assert!(error.to_string().contains("not valid for name"), "{error}");
    });
}

#[test]
fn an_old_version_of_tls() {
    refuses(LISTENERS[0], "the client offers neither TLS 1.2 nor TLS 1.3", |setup, _| {
        let address = setup.address(0).to_string();
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &address, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(!status.expect("openssl is there").success());
    });
}

#[test]
fn plain_text_and_who_only_looks() {
    for listen in LISTENERS {
        refuses(listen, "this is not TLS", |setup, _| {
            // Nothing is said, so nothing failed.
            drop(TcpStream::connect(setup.address(0)).expect("it listens"));
            let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            stream.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").expect("it reads");
            let mut rest = Vec::new();
            let _ended = stream.read_to_end(&mut rest);
        });
    }
}

#[test]
fn tls_at_a_plain_listener_is_no_message() {
    for protocol in ["lines", "syslog"] {
        let (setup, authority) = setup(&[&format!("{protocol}+tcp://127.0.0.1:{{0}}")]);
        let server = setup.start();
        Client::new(&authority).connect(setup.address(0)).expect_err("it is plain");
        server.wait_log("TLS at a plain listener");
        let status = server.wait_status("refused", |status| status["listeners"][0]["ledger"]["refused"] == 1);
        assert_eq!(status["ledger"]["received"], 0, "{status:#}");
        assert!(status["listeners"][0]["tls"].is_null(), "{status:#}");
    }
}

#[test]
fn half_a_handshake_does_not_stay() {
    const HELD: u64 = 50;
    for listen in LISTENERS {
        let (setup, _) = setup(&[&format!("{listen}?{TLS}")]);
        let setup = setup.config("hello_timeout_seconds = 1\n");
        let server = setup.start();
        let mut held = Vec::new();
        for number in 0..HELD {
            let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            // A hello begins, or nothing is said at all.
            if number % 2 == 0 {
                stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0]).expect("it reads");
            }
            held.push(stream);
        }
        for mut stream in held {
            let mut rest = Vec::new();
            let _ended = stream.read_to_end(&mut rest);
        }
        failed(&server, HELD);
        server.wait_log("no complete handshake within 1 s");
        server.wait_status("closed", |status| {
            status["workers"].as_array().expect("workers").iter().all(|worker| worker["connections"] == 0)
        });
    }
}
