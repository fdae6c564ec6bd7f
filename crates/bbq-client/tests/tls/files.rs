//! If this fails, a sender starts with files that no connection can be made with, or does not notice that they were renewed.

use std::fs;
use std::path::Path;

use bbq_client::{SenderBuilder, StartError};

use crate::authority::{Authority, BOTH, Issued};
use crate::support::{Connection, PATIENCE, Setup, acknowledged};
use crate::{accept, serve_until_left};

/// The error of a sender that does not start, which names the option.
fn refusal(sender: SenderBuilder, expected: &str) -> String {
    match sender.start() {
        Err(error @ StartError::Tls { option, .. }) => {
            assert_eq!(option, expected, "{error}");
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

fn assert_refused(sender: SenderBuilder, option: &str, words: &[&str]) {
    let text = refusal(sender, option);
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} are not in: {text}");
}

#[test]
fn files_that_cannot_be_used_are_refused_at_the_start() {
    let (setup, authority) = (Setup::new(), Authority::new("the CA"));
    let (one, two) = (authority.issue("one"), authority.issue("two"));
    let file = |name: &str, text: &str| {
        let path = authority.directory().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let sender = || setup.sender_to("bbq+tls://").tls_ca(authority.ca());
    let missing = authority.directory().join("missing.pem");
    let empty = file("empty.pem", "no PEM\n");
    let cut = file("cut.pem", &fs::read_to_string(&one.cert).unwrap()[..200]);
    let damaged = file("damaged.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let encrypted = file(
        "encrypted.pem",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let ca = |path: &Path| sender().tls_ca(path);
    assert_refused(
        ca(&missing),
        "tls_ca",
        &["missing.pem: it cannot be read", "No such file", "name a PEM file"],
    );
    assert_refused(ca(authority.directory()), "tls_ca", &["it cannot be read"]);
    assert_refused(ca(Path::new("/dev/zero")), "tls_ca", &["it has over"]);
    assert_refused(ca(&empty), "tls_ca", &["empty.pem: there is no certificate in it", "BEGIN CERTIFICATE"]);
    assert_refused(ca(&cut), "tls_ca", &["a damaged PEM file"]);
    assert_refused(ca(&damaged), "tls_ca", &["certificate 1 in it cannot be used"]);
    let client = |cert: &Path, key: &Path| sender().tls_cert(cert).tls_key(key);
    assert_refused(client(&missing, &one.key), "tls_cert", &["it cannot be read"]);
    assert_refused(client(&one.key, &one.key), "tls_cert", &["there is no certificate in it"]);
    assert_refused(client(&one.cert, &one.cert), "tls_key", &["there is no key in it", "BEGIN PRIVATE KEY"]);
    assert_refused(client(&one.cert, &encrypted), "tls_key", &["encrypted", "openssl pkey"]);
    assert_refused(
        client(&one.cert, &two.key),
        "tls_key",
        &["not the key of the first certificate", "cert-0.pem"],
    );
    assert_refused(sender().tls_cert(&one.cert), "tls_cert", &["also set tls_key"]);
    assert_refused(sender().tls_key(&one.key), "tls_key", &["also set tls_cert"]);
    assert_refused(
        sender().tls_server_name("a b"),
        "tls_server_name",
        &["neither a DNS name nor an IP address"],
    );
    assert!(client(&one.cert, &one.key).start().is_ok());
}

#[test]
fn options_for_tls_want_a_server_that_is_reached_by_it() {
    let (setup, authority) = (Setup::new(), Authority::new("the CA"));
    let Issued { cert, key } = authority.issue("one");
    let plain = || setup.sender_to("bbq://");
    for (sender, option) in [
        (plain().tls_ca(authority.ca()), "tls_ca"),
        (plain().tls_cert(cert).tls_key(key), "tls_cert"),
        (plain().tls_server_name("x"), "tls_server_name"),
    ] {
        assert_refused(sender, option, &["write bbq+tls://HOST:PORT"]);
    }
    // One such server among others is enough.
    let other = "bbq+tls://127.0.0.1:1".parse().unwrap();
    assert!(plain().server(other).tls_ca(authority.ca()).start().is_ok());
}

#[test]
fn a_file_that_changes_is_read_again_at_the_next_connection() {
    let setup = Setup::new();
    let (old, new) = (Authority::new("the old CA"), Authority::new("the new CA"));
    let Issued { cert, key } = old.issue("a client");
    let sender =
        setup.sender_to("bbq+tls://").tls_ca(old.ca()).tls_cert(&cert).tls_key(&key).start().unwrap();
    sender.send(b"one").unwrap();
    let server = old.issue("127.0.0.1").server(BOTH, Some(&old));
    let mut connection = Connection::over(accept(&setup, &server));
    connection.hello();
    connection.welcome(0);
    connection.batch().unwrap();
    connection.ack(1);
    acknowledged(&sender, 1);
    drop(connection);
    // For a while the files do not fit together, and connections fail.
    let renewed = new.issue("a client");
    fs::rename(&renewed.key, &key).unwrap();
    sender.send(b"two").unwrap();
    let server = new.issue("127.0.0.1").server(BOTH, Some(&new));
    let failed = sender.counters().reconnects;
    while sender.counters().reconnects < failed + 3 {
        // It ends without a handshake.
        serve_until_left(&setup, &server);
    }
    fs::rename(&renewed.cert, &cert).unwrap();
    fs::rename(new.ca(), old.ca()).unwrap();
    let mut connection = loop {
        let mut connection = Connection::over(accept(&setup, &server));
        if connection.hello_if_any().is_some() {
            break connection;
        }
    };
    connection.welcome(1);
    assert_eq!(connection.batch().unwrap().records, [b"two"]);
    connection.ack(2);
    sender.flush(PATIENCE).unwrap();
}
