//! If this fails, a program that people already have cannot send through TLS: it hangs, or what it sent is changed, lost or
//! doubled.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::client::{TLS, setup};
use crate::support::client::assert_numbered_lines;
use crate::support::{Setup, run};

const LINES: u32 = 1000;

fn lines() -> String {
    (0..LINES).fold(String::new(), |mut text, number| {
        writeln!(text, "line {number}").expect("memory");
        text
    })
}

/// A program of the system.
fn is_there(path: &str, package: &str) {
    assert!(Path::new(path).exists(), "{path} is missing: apt-get install {package}");
}

fn s_client(setup: &Setup) -> Command {
    let mut command = Command::new("openssl");
    let address = setup.address(0).to_string();
    command.args([
        "s_client",
        "-quiet",
        "-no_ign_eof",
        "-verify_return_error",
        "-connect",
        &address,
        "-CAfile",
    ]);
    command.arg(setup.path().join("ca.pem")).args([
        "-verify_hostname",
        "localhost",
        "-servername",
        "localhost",
    ]);
    command
}

#[test]
fn openssl_sends_lines_with_every_version() {
    for version in ["-tls1_2", "-tls1_3"] {
        let (setup, _) = setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{TLS}")]);
        let server = setup.start();
        run(s_client(&setup).arg(version), lines().as_bytes());
        server.wait_delivered(LINES.into());
        assert_eq!(setup.written(), lines().as_bytes());
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
    assert_eq!(setup.written(), lines().as_bytes());
}

#[test]
fn curl_posts_with_a_client_certificate() {
    let listen = format!("http+tcp://127.0.0.1:{{0}}?{TLS}&tls_client_ca={{dir}}/ca.pem");
    let (setup, authority) = setup(&[&listen]);
    authority.sign("a client").write(setup.path(), "client");
    let server = setup.start();
    let url = format!("https://localhost:{}/ndjson", setup.ports[0]);
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--ipv4", "--data-binary", "@-", &url]);
    for (option, file) in [("--cacert", "ca.pem"), ("--cert", "client-cert.pem"), ("--key", "client-key.pem")]
    {
        command.arg(option).arg(setup.path().join(file));
    }
    let answer = run(&mut command, lines().as_bytes()).stdout;
    assert_eq!(String::from_utf8(answer).expect("text"), "{\"ack\":\"durable\",\"taken\":1000}\n");
    server.wait_delivered(LINES.into());
    assert_eq!(setup.written(), lines().as_bytes());
}

/// RFC 5425, with a client certificate.
#[test]
fn syslog_ng_sends_with_a_client_certificate() {
    is_there("/usr/sbin/syslog-ng", "syslog-ng-core");
    let listen = format!("syslog+tcp://127.0.0.1:{{0}}?{TLS}&tls_client_ca={{dir}}/ca.pem");
    let (setup, authority) = setup(&[&listen]);
    authority.sign("a client").write(setup.path(), "client");
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
