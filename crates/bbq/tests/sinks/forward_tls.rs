//! If this fails, messages that a server passes on by TLS are lost or come twice, or go to a server that nobody vouches for, or a person
//! does not see why they stand still.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;

use crate::authority::{Authority, Pair};
use crate::forward::{central, deliver_despite_kills, edge_to, wait_problem};
use crate::support::{Server, Setup, refused_start};

const TOKEN: &str = "token-of-the-edges";

/// Writes a file that its owner alone may read.
fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("permissions");
}

fn trust(setup: &Setup, authority: &Authority) {
    fs::write(setup.path().join("ca.pem"), authority.certificate()).expect("a file");
}

/// The last server, with this certificate. It asks for a certificate of the authority, and for a token.
fn last_with(authority: &Authority, certificate: &Pair) -> Setup {
    let files = "tls_cert={dir}/server-cert.pem&tls_key={dir}/server-key.pem&tls_client_ca={dir}/ca.pem";
    let setup = Setup::new(&[&format!("bbq+tcp://127.0.0.1:{{0}}?{files}&tokens={{dir}}/tokens")]);
    certificate.write(setup.path(), "server");
    trust(&setup, authority);
    write_secret(&setup.path().join("tokens"), &format!("edges {TOKEN} relay\n"));
    setup
}

fn last(authority: &Authority) -> Setup {
    last_with(authority, &authority.sign("localhost"))
}

const CA: &str = "tls_ca={dir}/ca.pem";
const CERT: &str = "tls_cert={dir}/client-cert.pem&tls_key={dir}/client-key.pem";
const WITH_TOKEN: &str = "token_file={dir}/token";

/// A server that passes on by TLS, with these options.
fn first(next: &Setup, authority: &Authority, options: &[&str]) -> Setup {
    let mut setup = edge_to("null:");
    authority.sign("client").write(setup.path(), "client");
    trust(&setup, authority);
    write_secret(&setup.path().join("token"), TOKEN);
    setup.set_sinks(&[&format!("bbq+tls://localhost:{}?{}", next.address(0).port(), options.join("&"))]);
    setup
}

#[test]
fn each_message_arrives_once_and_in_order_whoever_is_killed() {
    let authority = Authority::new("a test's authority");
    let last = last(&authority);
    deliver_despite_kills(&first(&last, &authority, &[CA, CERT, WITH_TOKEN]), &last, 200_000);
}

/// Starts the server with a message, and waits until its sink has a problem with these words.
fn says<'a>(setup: &'a Setup, words: &[&str]) -> Server<'a> {
    let server = setup.start();
    server.send(1, b"a message\n");
    words.iter().for_each(|words| wait_problem(&server, words));
    server
}

#[test]
fn every_mistake_is_told_with_its_remedy() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let good = last(&authority);
    let at_good = good.start();
    let all = [CA, CERT, WITH_TOKEN];

    let unknown = first(&good, &authority, &all);
    trust(&unknown, &other);
    says(&unknown, &["issued by none of the trusted CAs, those in tls_ca", "set tls_ca to"]);
    says(&first(&good, &authority, &all[1..]), &["the system's (tls_ca is not set)"]);
    says(&first(&good, &authority, &[CA, WITH_TOKEN]), &["client certificate", "set tls_cert and tls_key"]);
    let stranger = first(&good, &authority, &all);
    other.sign("client").write(stranger.path(), "client");
    says(&stranger, &["refuse", "the client certificate in tls_cert"]);
    says(&first(&good, &authority, &[CA, CERT]), &["the server refused", "token"]);
    let plain = format!("bbq://localhost:{}", good.address(0).port());
    says(&edge_to(&plain), &["it speaks TLS; write bbq+tls://HOST:PORT"]);
    assert_eq!(at_good.status()["ledger"]["received"], 0);

    let another = last_with(&authority, &authority.sign("logs.example"));
    let at_another = another.start();
    let setup = first(&another, &authority, &all);
    says(&setup, &["is for another name", "or set tls_server_name"]);
    let named = [&all[..], &["tls_server_name=logs.example"]].concat();
    let setup = first(&another, &authority, &named);
    let server = setup.start();
    server.send(1, b"a message\n");
    at_another.wait_delivered(1);

    let expired = last_with(&authority, &authority.sign_until("localhost", 2021));
    let _at_expired = expired.start();
    says(&first(&expired, &authority, &all), &["its certificate has expired", "renew it"]);
    let plain = central();
    let _at_plain = plain.start();
    says(&first(&plain, &authority, &all), &["it does not answer with TLS; write bbq://"]);
}

#[test]
fn new_files_are_read_when_it_connects_again() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let last = last(&authority);
    let at_last = last.start();
    let setup = first(&last, &authority, &[CA, CERT, WITH_TOKEN]);
    trust(&setup, &other);
    let server = says(&setup, &["issued by none of the trusted"]);
    fs::write(setup.path().join("ca.pem"), "half a file").expect("a file");
    wait_problem(&server, "tls_ca: ");
    trust(&setup, &authority);
    server.wait_delivered(1);
    at_last.wait_delivered(1);
    // The connection that is open goes on without a file.
    fs::remove_file(setup.path().join("client-cert.pem")).expect("it was there");
    server.send(1, b"another\n");
    at_last.wait_delivered(2);
    at_last.kill();
    server.send(1, b"a third\n");
    wait_problem(&server, "Connection refused");
    let at_last = last.start();
    wait_problem(&server, "tls_cert: cannot read");
    authority.sign("client").write(setup.path(), "client");
    at_last.wait_delivered(3);
}

#[test]
fn files_that_cannot_be_used_are_refused_at_the_start() {
    for (options, words) in [
        ("tls_ca={dir}/nowhere.pem", "tls_ca: cannot read"),
        ("tls_cert={dir}/nowhere.pem", "also write tls_key=PATH"),
    ] {
        let mut setup = edge_to("null:");
        setup.set_sinks(&[&format!("bbq+tls://localhost:1?{options}")]);
        let (code, text) = refused_start(&mut setup.command());
        assert!(code == Some(2) && text.contains(words), "{text}");
    }
}
