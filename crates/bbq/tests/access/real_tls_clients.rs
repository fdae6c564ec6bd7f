//! If this fails, a program that people already have cannot send through TLS: it hangs, or what it sent is changed, lost or
//! doubled.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::client::{TLS, setup};
use crate::support::client::assert_numbered_lines;
use crate::support::program::Program;
use crate::support::{PATIENCE, Setup, pause, run};

const LINES: u32 = 100_000;

fn numbered(numbers: Range<u32>) -> String {
    numbers.fold(String::new(), |mut text, number| {
        writeln!(text, "line {number}").expect("memory");
        text
    })
}

fn lines() -> String {
    numbered(0..LINES)
}

/// A server that takes only clients with a certificate, and `client-cert.pem` with its key for them.
fn setup_for_certificates(protocol: &str) -> Setup {
    let listen = format!("{protocol}+tcp://127.0.0.1:{{0}}?{TLS}&tls_client_ca={{dir}}/ca.pem");
    let (setup, authority) = setup(&[&listen]);
    authority.sign("a client").write(setup.path(), "client");
    setup
}

/// A program of the system.
fn is_there(path: &str, package: &str) {
    assert!(Path::new(path).exists(), "{path} is missing: apt-get install {package}");
}

fn s_client(setup: &Setup) -> Command {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-no_ign_eof", "-verify_return_error"]);
    command.args(["-verify_hostname", "localhost", "-servername", "localhost"]);
    command.args(["-connect", &setup.address(0).to_string()]);
    for (option, file) in [("-CAfile", "ca.pem"), ("-cert", "client-cert.pem"), ("-key", "client-key.pem")] {
        command.arg(option).arg(setup.path().join(file));
    }
    command
}

#[test]
fn openssl_sends_lines_with_every_version_and_a_client_certificate() {
    for version in ["-tls1_2", "-tls1_3"] {
        let setup = setup_for_certificates("lines");
        let server = setup.start();
        run(s_client(&setup).arg(version), lines().as_bytes());
        server.wait_delivered(LINES.into());
        assert!(setup.written() == lines().as_bytes(), "{version}: the lines are not as they were sent");
    }
}

/// Lines have no acknowledgement, and a kill loses what is on its way. What is stored of the broken connection is its front: who continues
/// behind the last line that is stored, loses nothing and stores nothing twice.
#[test]
fn openssl_continues_behind_the_last_line_that_is_stored_after_each_of_three_kills() {
    const PARTS: u32 = 4;
    let setup = setup_for_certificates("lines");
    let mut began = Vec::new();
    let mut stored = 0;
    for part in 1..=PARTS {
        let server = setup.start();
        server.wait_status("delivery of what was stored before", |status| status["ledger"]["queued"] == 0);
        // Each connection may come to another worker, so its lines may stand before those of an earlier one.
        let written = setup.written();
        let after_kill = count_lines(&written);
        assert!(after_kill >= stored, "a kill took what a sink had shown: {after_kill} of {stored} lines");
        assert_numbered_lines(&written, 0..after_kill);
        let behind = after_kill..LINES / PARTS * part;
        let middle = behind.start + behind.len() as u32 / 2;
        let mut sender = Program::start(s_client(&setup).stdin(Stdio::piped()).stderr(Stdio::null()));
        let mut input = sender.stdin.take().expect("piped");
        began.push(behind.start);
        input.write_all(numbered(behind.start..middle).as_bytes()).expect("it reads");
        stored = wait_written(&setup, middle);
        // More than the pipe holds, so some of it is on its way when the server is killed.
        input.write_all(numbered(middle..behind.end).as_bytes()).expect("it reads");
        if part < PARTS {
            server.kill();
        } else {
            drop(input);
            assert!(sender.wait().expect("it was ours").success());
            server.wait_delivered(LINES.into());
            assert_eq!(server.stop(), Some(0));
        }
    }
    assert_numbered_lines(&setup.written(), 0..LINES);
    eprintln!("openssl began at the lines {began:?}");
}

fn count_lines(written: &[u8]) -> u32 {
    written.iter().filter(|byte| **byte == b'\n').count() as u32
}

/// Waits until so many lines are in the output; returns how many there are.
fn wait_written(setup: &Setup, lines: u32) -> u32 {
    let start = Instant::now();
    loop {
        let written = count_lines(&setup.written());
        if written >= lines {
            return written;
        }
        assert!(start.elapsed() < PATIENCE, "{written} of {lines} lines came\n{}", setup.log());
        pause();
    }
}

/// Python's socket ends without a close_notify.
#[test]
fn python_sends_lines() {
    let (setup, _) = setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{TLS}")]);
    let server = setup.start();
    let program = "import socket, ssl, sys\n\
                   context = ssl.create_default_context(cafile=sys.argv[2])\n\
                   plain = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n\
                   with context.wrap_socket(plain, server_hostname='localhost') as stream:\n\
                   \x20   stream.sendall(sys.stdin.buffer.read())\n";
    let mut command = Command::new("python3");
    command.args(["-c", program, &setup.ports[0].to_string()]).arg(setup.path().join("ca.pem"));
    run(&mut command, lines().as_bytes());
    server.wait_delivered(LINES.into());
    assert!(setup.written() == lines().as_bytes(), "the lines are not as they were sent");
}

#[test]
fn curl_posts_with_a_client_certificate() {
    let setup = setup_for_certificates("http");
    let server = setup.start();
    let url = format!("https://localhost:{}/ndjson", setup.ports[0]);
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--ipv4", "--data-binary", "@-", &url]);
    for (option, file) in [("--cacert", "ca.pem"), ("--cert", "client-cert.pem"), ("--key", "client-key.pem")]
    {
        command.arg(option).arg(setup.path().join(file));
    }
    let answer = run(&mut command, lines().as_bytes()).stdout;
    let taken = format!("{{\"ack\":\"durable\",\"taken\":{LINES}}}\n");
    assert_eq!(String::from_utf8(answer).expect("text"), taken);
    server.wait_delivered(LINES.into());
    assert!(setup.written() == lines().as_bytes(), "the lines are not as they were sent");
}

/// RFC 5425, with a client certificate.
#[test]
fn syslog_ng_sends_with_a_client_certificate() {
    is_there("/usr/sbin/syslog-ng", "syslog-ng-core");
    let setup = setup_for_certificates("syslog");
    let server = setup.start();
    let text = setup.fill(
        "@version: 3.35\n\
         options { use-dns(no); };\n\
         source s { file(\"{dir}/input\" flags(no-parse) read-old-records(yes)); };\n\
         destination d { syslog(\"localhost\" port({0}) ip-protocol(4) transport(\"tls\")\n\
         tls(ca-file(\"{dir}/ca.pem\") cert-file(\"{dir}/client-cert.pem\") key-file(\"{dir}/client-key.pem\")\n\
         peer-verify(required-trusted))); };\n\
         log { source(s); destination(d); flags(flow-control); };\n",
    );
    fs::write(setup.path().join("syslog-ng.conf"), text).expect("a file");
    fs::write(setup.path().join("input"), lines()).expect("a file");
    let mut command = Command::new("/usr/sbin/syslog-ng");
    command.args(["--foreground", "--no-caps", "--stderr"]);
    for (option, file) in
        [("--cfgfile", "conf"), ("--persist-file", "persist"), ("--pidfile", "pid"), ("--control", "control")]
    {
        command.arg(option).arg(setup.path().join(format!("syslog-ng.{file}")));
    }
    let log = fs::File::create(setup.path().join("syslog-ng.log")).expect("a file");
    let mut sender =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
    let delivered = server.wait_status("syslog-ng's lines", |status| {
        status["ledger"]["delivered"].as_u64() >= Some(u64::from(LINES))
    });
    sender.kill().expect("it runs");
    sender.wait().expect("it was ours");
    assert_eq!(delivered["ledger"]["delivered"], LINES, "{delivered:#}");
    let written = String::from_utf8(setup.written()).expect("text");
    let messages: Vec<&str> =
        written.lines().map(|line| &line[line.rfind("line ").expect("the message")..]).collect();
    assert_numbered_lines(messages.join("\n").as_bytes(), 0..LINES);
}
