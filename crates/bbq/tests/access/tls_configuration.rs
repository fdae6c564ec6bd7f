//! If this fails, a mistake in the configuration of TLS is found by the first client, or the message does not say what to write.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::authority::Authority;
use crate::client::{TLS, setup};
use crate::support::BBQ;

#[test]
fn each_file_that_cannot_be_used_is_named_with_the_reason() {
    let authority = Authority::new("a test's authority");
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    authority.sign("localhost").write(directory.path(), "good");
    authority.sign("localhost").write(directory.path(), "other");
    fs::write(path("empty"), "").expect("a file");
    fs::write(path("text"), "no certificate\n").expect("a file");
    fs::write(path("cut"), &authority.certificate()[..200]).expect("a file");
    fs::write(path("junk"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .expect("a file");
    let (cert, key) = ("DIR/good-cert.pem", "DIR/good-key.pem");
    for (cert, key, more, says) in [
        (cert, key, "", "is valid"),
        (cert, key, "&tls_client_ca=DIR/good-cert.pem", "is valid"),
        ("DIR/missing", key, "", "tls_cert: cannot read DIR/missing: No such file"),
        ("DIR/empty", key, "", "tls_cert: DIR/empty is empty"),
        ("DIR/text", key, "", "DIR/text has no certificate; it must begin with -----BEGIN CERTIFICATE-----"),
        ("DIR/cut", key, "", "tls_cert: DIR/cut is not valid PEM"),
        ("DIR/junk", key, "", "tls_cert: DIR/junk: the first certificate is not valid"),
        ("DIR", key, "", "tls_cert: DIR is not a regular file"),
        (cert, "DIR/missing", "", "tls_key: cannot read DIR/missing"),
        (cert, "DIR/empty", "", "tls_key: DIR/empty is empty"),
        (cert, "DIR/good-cert.pem", "", "tls_key: DIR/good-cert.pem has no private key"),
        (
            cert,
            "DIR/other-key.pem",
            "",
            "tls_key: DIR/other-key.pem is not the key of the certificate in DIR/good-cert.pem",
        ),
        (cert, key, "&tls_client_ca=DIR/text", "tls_client_ca: DIR/text has no certificate"),
    ] {
        let there = directory.path().display().to_string();
        let file = path("bbq.toml");
        let spec =
            format!("lines+tcp://127.0.0.1:1?tls_cert={cert}&tls_key={key}{more}").replace("DIR", &there);
        fs::write(&file, format!("listen = [\n  {spec:?}]\n")).expect("a file");
        let output = Command::new(BBQ).arg("check").arg(&file).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).expect("text").replace(&there, "DIR");
        assert!(said.contains(says), "{cert} {key} {more}: {said}");
        if says != "is valid" {
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("bbq.toml:2:3: "), "{said}");
            assert!(!said.contains("PRIVATE KEY-----\n"), "{said}");
        }
    }
}

#[test]
fn an_expired_certificate_and_a_key_that_all_can_read_are_warnings() {
    let (setup, authority) = setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{TLS}")]);
    authority.sign_until("localhost", 2021).write(setup.path(), "server");
    let key = setup.path().join("server-key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("permissions");
    let server = setup.start();
    setup.wait_log("this certificate has expired");
    setup.wait_log("every user can read this secret");
    assert_eq!(setup.log().matches("every user can read this secret").count(), 1, "{}", setup.log());
    drop(server);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("permissions");
    let _server = setup.start();
    assert_eq!(setup.log().matches("every user can read this secret").count(), 1);
}
