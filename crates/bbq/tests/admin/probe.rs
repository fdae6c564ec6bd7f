//! If this fails, a load balancer cannot probe the server without a token, or it sees more there than it should, or keeps an operator
//! away from the admin.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::lineage::Lineage;
use crate::support::program::Program;
use crate::support::{BBQ, PATIENCE, Setup, free_ports, refused_start};

/// A server with an address for probes, and that address.
fn setup() -> (Setup, String) {
    let probe = format!("127.0.0.1:{}", free_ports(1)[0]);
    (Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--probe", &probe]), probe)
}

/// Status line and text of an answer.
fn ask(address: &str, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    // By whatever name it is asked, as a load balancer has its own.
    let request = format!("{method} {path} HTTP/1.1\r\nHost: bbq.example\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (line, rest) = answer.split_once("\r\n").expect("a status line");
    let text = rest.split_once("\r\n\r\n").expect("a head").1;
    (line.to_owned(), text.to_owned())
}

#[test]
fn probes_are_answered_and_nothing_else() {
    let (setup, probe) = setup();
    let server = setup.start();
    for path in ["/livez", "/readyz"] {
        assert_eq!(ask(&probe, "GET", path), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()), "{path}");
    }
    for path in ["/", "/status", "/health", "/metrics", "/history", "/tail", "/configuration"] {
        let (line, text) = ask(&probe, "GET", path);
        assert_eq!(line, "HTTP/1.1 404 Not Found", "{path}");
        assert!(text.contains("/livez and /readyz") && text.contains("admin"), "{path}: {text}");
    }
    assert_eq!(ask(&probe, "POST", "/reload").0, "HTTP/1.1 404 Not Found");
    server.wait_log(&format!(" probe={probe}\n"));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn who_holds_its_connections_keeps_nobody_away() {
    let (setup, probe) = setup();
    let server = setup.start();
    let _hogs: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&probe).expect("it listens")).collect();
    assert_eq!(ask(&probe, "GET", "/readyz").0, "HTTP/1.1 200 OK");
    assert_eq!(server.health().0, 200);
}

#[test]
fn an_upgrade_hands_it_over() {
    let (setup, probe) = setup();
    let mut server = Lineage::start(&setup);
    server.upgrade();
    assert_eq!(ask(&probe, "GET", "/readyz").0, "HTTP/1.1 200 OK");
}

#[test]
fn it_needs_no_admin() {
    let probe = format!("127.0.0.1:{}", free_ports(1)[0]);
    let setup = Setup::new(&[]);
    let log = File::create(setup.path().join("log")).expect("a log");
    let mut command = Command::new(BBQ);
    command.args(["serve", "--admin", "off", "--probe", &probe, "--listen", "lines+tcp://127.0.0.1:0"]);
    command.args(["--sink", "null:", "--data"]).arg(setup.data()).stdout(Stdio::null()).stderr(log);
    let _server = Program::start(&mut command);
    setup.wait_log(&format!(" admin=off probe={probe}\n"));
    assert_eq!(ask(&probe, "GET", "/readyz").0, "HTTP/1.1 200 OK");
}

#[test]
fn the_address_of_the_admin_is_refused() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--probe", "127.0.0.1:{1}"]);
    let (code, text) = refused_start(&mut setup.command());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("is the address of admin") && text.contains("another port"), "{text}");
}
