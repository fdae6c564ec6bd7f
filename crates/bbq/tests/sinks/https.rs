//! If this fails, messages that are posted by TLS do not arrive, or go to a server that nobody vouches for, or a person does not see why
//! they stand still.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;

use crate::authority::Authority;
use crate::http::{lines, wait_problem};
use crate::support::client::assert_numbered_lines;
use crate::support::{Setup, assert_balanced, refused_start};

/// A second bbq, whose listener asks for a certificate of the authority.
fn receiver(authority: &Authority) -> Setup {
    let files = "tls_cert={dir}/server-cert.pem&tls_key={dir}/server-key.pem&tls_client_ca={dir}/ca.pem";
    let setup = Setup::new(&[&format!("http+tcp://127.0.0.1:{{0}}?{files}")]);
    authority.sign("localhost").write(setup.path(), "server");
    fs::write(setup.path().join("ca.pem"), authority.certificate()).expect("a file");
    setup
}

/// A bbq that posts to it, with these options.
fn poster(to: &Setup, authority: &Authority, options: &str) -> Setup {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 1\n");
    authority.sign("client").write(setup.path(), "client");
    fs::write(setup.path().join("ca.pem"), authority.certificate()).expect("a file");
    let port = to.address(0).port();
    setup.set_sinks(&[&format!("https://localhost:{port}/ndjson?format=raw&{options}")]);
    setup
}

const CA: &str = "tls_ca={dir}/ca.pem";
const CERT: &str = "tls_cert={dir}/client-cert.pem&tls_key={dir}/client-key.pem";

#[test]
fn all_arrive_however_they_are_compressed() {
    let authority = Authority::new("a test's authority");
    for coding in ["none", "gzip", "zstd"] {
        let receiver = receiver(&authority);
        let to = receiver.start();
        let setup = poster(&receiver, &authority, &format!("{CA}&{CERT}&compress={coding}"));
        let server = setup.start();
        server.send(0, &lines(0..5000));
        let status = server.wait_delivered(5000);
        assert_balanced(&status);
        to.wait_delivered(5000);
        assert_numbered_lines(&receiver.written(), 0..5000);
        assert_eq!((server.stop(), to.stop()), (Some(0), Some(0)), "{coding}");
    }
}

#[test]
fn nothing_goes_to_a_server_of_another_authority_and_the_status_says_why() {
    let (authority, other) = (Authority::new("theirs"), Authority::new("ours"));
    let receiver = receiver(&authority);
    let to = receiver.start();
    // It trusts another one.
    let setup = poster(&receiver, &authority, &format!("{CA}&{CERT}"));
    fs::write(setup.path().join("ca.pem"), other.certificate()).expect("a file");
    let server = setup.start();
    server.send(0, &lines(0..10));
    wait_problem(&server, "UnknownIssuer");
    wait_problem(&server, "check tls_ca");
    assert_eq!(to.status()["ledger"]["received"], 0);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    // The next start reads the file again.
    fs::write(setup.path().join("ca.pem"), authority.certificate()).expect("a file");
    let server = setup.start();
    server.wait_delivered(10);
    to.wait_delivered(10);
}

#[test]
fn a_server_that_wants_a_certificate_is_told_from_one_that_is_away() {
    let authority = Authority::new("a test's authority");
    let receiver = receiver(&authority);
    let _to = receiver.start();
    let setup = poster(&receiver, &authority, CA);
    let server = setup.start();
    server.send(0, &lines(0..10));
    wait_problem(&server, "check tls_cert");
}

#[test]
fn a_server_without_tls_is_named_as_such() {
    let plain = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let _to = plain.start();
    let authority = Authority::new("a test's authority");
    let setup = poster(&plain, &authority, CA);
    let server = setup.start();
    server.send(0, &lines(0..10));
    wait_problem(&server, "it does not speak TLS: write http://");
}

#[test]
fn files_that_cannot_be_used_are_refused_at_the_start() {
    for (options, words) in [
        ("tls_ca={dir}/nowhere.pem", "tls_ca: cannot read"),
        ("tls_cert={dir}/nowhere.pem&tls_key={dir}/nowhere.pem", "tls_cert: cannot read"),
        ("tls_cert={dir}/nowhere.pem", "also write tls_key=PATH"),
    ] {
        let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
        setup.set_sinks(&[&format!("https://localhost:1/?{options}")]);
        let (code, text) = refused_start(&mut setup.command());
        assert!(code == Some(2) && text.contains(words), "{text}");
    }
}
