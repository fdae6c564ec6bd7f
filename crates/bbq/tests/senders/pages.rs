//! If this fails, an example of docs/senders or of docs/KUBERNETES.md does not work when a user pastes it. The examples are taken from the pages; only addresses,
//! ports and paths are replaced.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

mod chart;
mod forwarders;
mod journal;
mod kubernetes;
mod libraries;
mod page;
mod yaml;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::program::Program;
use crate::support::{PATIENCE, Setup, free_ports, pause, refused_start, run};
use page::{block, put, spec_of};

/// Whether what another process does, which has no other signal, comes in time.
fn comes(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() >= PATIENCE {
            return false;
        }
        pause();
    }
    true
}

fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes(is_so), "{what} did not come");
}

/// A shell that runs a script in a directory, and ends at the first command that fails.
fn shell(script: &str, directory: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(directory);
    command
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

mod curl {
    use super::*;

    const EVENTS: &str = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n";

    fn setup() -> Setup {
        let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
        fs::write(setup.path().join("events.ndjson"), EVENTS).expect("a file");
        setup
    }

    fn example(setup: &Setup, index: usize) -> String {
        put(&block("curl", "sh", index), &[("127.0.0.1:7780", &setup.address(0).to_string())])
    }

    #[test]
    fn a_message_lines_and_gzip() {
        let setup = setup();
        let server = setup.start();
        let answers = |index| text(run(&mut shell(&example(&setup, index), setup.path()), b"").stdout);
        assert_eq!(answers(0), "{\"ack\":\"durable\",\"taken\":1}\n");
        assert_eq!(answers(1), "{\"ack\":\"durable\",\"taken\":3}\n".repeat(2));
        server.wait_delivered(7);
        assert_eq!(server.stop(), Some(0));
        let written = text(setup.written());
        assert_eq!(written.matches("a message\n").count(), 1);
        assert_eq!(written.matches("{\"n\":2}\n").count(), 2);
    }

    /// The request begins before bbq is there, and is sent once more when bbq has taken it.
    #[test]
    fn a_numbered_request_waits_for_bbq_and_may_be_repeated() {
        let setup = setup();
        let example = example(&setup, 2);
        let (stream, request) = example.split_once('\n').expect("two commands");
        let script = format!("{stream}\n{request}\n{request}");
        let mut curl = shell(&script, setup.path());
        let mut curl = curl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell");
        let mut said = BufReader::new(curl.stderr.take().expect("piped")).lines();
        let waits = said.any(|line| line.expect("text").contains("Will retry"));
        assert!(waits, "curl does not try again: {:?}", curl.wait_with_output());
        let rest = std::thread::spawn(move || said.map_while(Result::ok).count());
        let server = setup.start();
        let output = curl.wait_with_output().expect("it ends");
        rest.join().expect("it only reads");
        assert!(output.status.success(), "{output:?}");
        let first = "{\"ack\":\"durable\",\"duplicates\":0,\"taken\":3}";
        assert!(page::section("curl").contains(first), "the page shows another answer");
        let answers = text(output.stdout);
        assert_eq!(answers, format!("{first}\n{{\"ack\":\"durable\",\"duplicates\":3,\"taken\":0}}\n"));
        server.wait_delivered(3);
        assert_eq!(server.stop(), Some(0));
        assert_eq!(text(setup.written()), EVENTS);
    }

    #[test]
    fn a_log_record_of_opentelemetry() {
        let setup = setup();
        let server = setup.start();
        let address = setup.address(0).to_string();
        let last = page::blocks("OpenTelemetry SDKs", "sh").len() - 1;
        let example = put(&block("OpenTelemetry SDKs", "sh", last), &[("127.0.0.1:7780", &address)]);
        run(&mut shell(&example, setup.path()), b"");
        server.wait_delivered(1);
        assert_eq!(server.stop(), Some(0));
        assert_eq!(text(setup.written()), "order 4711 took 2.5 s\n");
    }
}

#[test]
fn logger_by_tcp_and_udp_and_what_it_says_without_bbq() {
    let setup = Setup::new(&["syslog+tcp://127.0.0.1:{0}", "syslog+udp://127.0.0.1:{0}"]);
    let port = format!("--port {}", setup.ports[0]);
    let example = put(&block("logger", "sh", 0), &[("--port 5514", &port)]);
    let commands: Vec<&str> = example.lines().collect();
    let without_bbq = |index: usize| refused_start(&mut shell(commands[index], setup.path())).0;
    assert_eq!((without_bbq(0), without_bbq(1)), (Some(1), Some(0)), "exit codes by tcp and by udp");
    let server = setup.start();
    run(&mut shell(&example, setup.path()), b"");
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0));
    for line in text(setup.written()).lines() {
        assert!(line.starts_with("<13>1 ") && line.contains(" shop "), "{line}");
        assert!(line.ends_with(" a message"), "{line}");
    }
}

#[test]
fn nginx_sends_both_logs_by_udp_and_by_a_unix_socket() {
    let unix = put(&spec_of("nginx"), &[("/run/bbq", "{dir}")]);
    let setup = Setup::new(&["syslog+udp://127.0.0.1:{0}", &unix]);
    let server = setup.start();
    for (index, (from, to)) in
        [("127.0.0.1:5514", setup.address(0).to_string()), ("/run/bbq", setup.path().display().to_string())]
            .into_iter()
            .enumerate()
    {
        let example = put(&block("nginx", "nginx", index), &[(from, &to)]);
        let port = free_ports(1)[0];
        let mut whole =
            format!("daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{}}\nhttp {{\n{example}\n");
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            whole += &format!("{kind}_temp_path {kind};\n");
        }
        whole += &format!("server {{ listen 127.0.0.1:{port}; location / {{ return 200; }}\n");
        whole += "location /missing { root /nowhere; } }\n}\n";
        fs::write(setup.path().join("nginx.conf"), whole).expect("a file");
        let mut nginx = Command::new("/usr/sbin/nginx");
        nginx.arg("-p").arg(setup.path()).args(["-c", "nginx.conf", "-e", "stderr"]).stdin(Stdio::null());
        let nginx = Program::start(&mut nginx);
        wait_until("nginx", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        for path in ["present", "missing"] {
            let url = format!("http://127.0.0.1:{port}/{path}");
            run(Command::new("curl").args(["--silent", "--max-time", "60", &url]), b"");
        }
        server.wait_delivered(3 * (index as u64 + 1));
        drop(nginx);
    }
    assert_eq!(server.stop(), Some(0));
    let written = text(setup.written());
    // local7.info and local7.err.
    assert_eq!(
        written.lines().filter(|line| line.starts_with("<190>") && line.contains(" nginx: ")).count(),
        4
    );
    assert_eq!(written.matches("\"GET /present HTTP/1.1\" 200").count(), 2, "{written}");
    assert_eq!(written.matches("\"GET /missing HTTP/1.1\" 404").count(), 2, "{written}");
    assert_eq!(
        written.lines().filter(|line| line.starts_with("<187>") && line.contains("[error]")).count(),
        2
    );
}

#[test]
fn python_by_a_unix_socket() {
    let listen = put(&spec_of("Python's SysLogHandler"), &[("/run/bbq", "{dir}")]);
    let setup = Setup::new(&[&listen]);
    let server = setup.start();
    let directory = setup.path().display().to_string();
    let example = put(&block("Python's SysLogHandler", "python", 0), &[("/run/bbq", &directory)]);
    let output = run(Command::new("python3").args(["-c", &example]), b"");
    assert!(output.stderr.is_empty(), "{output:?}");
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(text(setup.written()), "<12>shop: order 4711 took 2.5 s\n");
}
