//! If this fails, a program in C or C++ sends in the clear, or not at all, where it should send by TLS; or a child that it forks hangs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::ServerConfig;

use crate::authority::{Authority, BOTH, Issued};
use crate::support::native::{Library, program, sources};
use crate::support::{Setup, run};
use crate::tls_proxy::TlsProxy;

const LINES: &str = "one\ntwo\n";

/// Lets a command, to which the address of a server is added, send the lines of its standard input.
fn sends_lines(tls: Arc<ServerConfig>, command: &mut Command, arguments: &[&Path]) {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let proxy = TlsProxy::start(tls, setup.address(0));
    let output = run(command.arg(proxy.url()).args(arguments), LINES.as_bytes());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2 messages acknowledged\n", "{output:?}");
    server.wait_delivered(2);
    assert_eq!(String::from_utf8_lossy(&setup.written()), LINES);
}

#[test]
fn the_options_are_those_of_the_client() {
    let (library, authority) = (Library::install(), Authority::new("the CA"));
    let Issued { cert, key } = authority.issue("a client");
    let ca = authority.ca();
    let tls = authority.issue("logs.example").server(BOTH, Some(&authority));
    for source in ["tls.c", "tls.cpp"] {
        let program = library.compile(&program(source), &["bbq"]);
        let name = Path::new("logs.example");
        sends_lines(Arc::clone(&tls), &mut Command::new(&program), &[&ca, &cert, &key, name]);
        let wrong =
            Command::new(&program).arg("bbq+tls://127.0.0.1:1").args([&cert, &cert, &cert]).arg("x").output();
        let wrong = wrong.unwrap();
        let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(wrong.status.code() == Some(1) && said.contains("there is no key in it"), "{said}");
    }
}

/// The program that forks while its sender works, with a server that is reached by TLS.
#[test]
fn a_child_waits_for_nothing_of_its_parents_tls() {
    let (library, authority) = (Library::install(), Authority::new("the CA"));
    let program = library.compile(&program("fork.c"), &["bbq"]);
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let proxy = TlsProxy::start(authority.server(), setup.address(0));
    // A child that hangs would wait for ever, and its parent for it.
    let mut command = Command::new("timeout");
    command.arg("100").arg(program).arg(proxy.url()).arg(setup.path().join("spool"));
    // The program has no option for the CA.
    let output = run(command.env("SSL_CERT_FILE", authority.ca()), b"");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let parents: u64 = printed.trim().strip_prefix("parent ").and_then(|count| count.parse().ok()).unwrap();
    // What it sends is in `c_fork`: 24 children, of which 18 send 200 messages each and 6 of these twice as many.
    server.wait_delivered(parents + 24 * 200 + 1);
}

#[test]
fn an_example_trusts_what_the_system_trusts() {
    let (library, authority) = (Library::install(), Authority::new("the CA"));
    let program = library.compile(&sources().join("examples/send.c"), &["bbq"]);
    sends_lines(authority.server(), Command::new(program).env("SSL_CERT_FILE", authority.ca()), &[]);
}
