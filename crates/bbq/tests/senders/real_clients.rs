//! If this fails, a program that people already have cannot send to bbq: it hangs, or its messages are changed, lost or doubled.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{BBQ, Setup, run};

/// As `cargo xtask test` installs them.
fn tool(name: &str, package: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    assert!(found, "{name} is missing: apt-get install {package}");
    Command::new(name)
}

/// Messages as many clients have them: empty words, not ASCII, long ones, things that look like framing.
fn messages(count: usize) -> Vec<String> {
    let texts =
        ["plain", "größe 100 µs", "12 looks like a count", "<13>looks like a priority", "tab\tand % and \\"];
    let long = "x".repeat(900);
    (0..count)
        .map(|number| {
            let text = if number % 50 == 49 { &long } else { texts[number % texts.len()] };
            format!("message {number} {text}")
        })
        .collect()
}

/// The content of a file with each message as a line.
fn lines<T: AsRef<[u8]>>(messages: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut lines = Vec::new();
    for message in messages {
        lines.extend_from_slice(message.as_ref());
        lines.push(b'\n');
    }
    lines
}

/// Starts a server with one listener, lets a client send this many messages, and compares the file with what the client reports as
/// sent. The order of datagrams is not compared: all workers receive from a unix socket, and while the worker of a UDP sender does not run,
/// another one gets what the sender sends next.
fn arrives_as_sent(listen: &str, count: usize, send: impl FnOnce(&Setup) -> Vec<u8>) {
    let setup = Setup::new(&[listen]);
    let server = setup.start();
    let sent = send(&setup);
    let status = server.wait_delivered(count as u64);
    assert_eq!(status["ledger"]["received"], count, "{status:#}");
    let (written, sent) = match listen.contains("+unixgram:") || listen.contains("+udp:") {
        true => (sorted(&setup.written()), sorted(&sent)),
        false => (setup.written(), sent),
    };
    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&sent), "{}", setup.log());
    assert!(written == sent, "it differs where it is no UTF-8");
}

fn sorted(written: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = written.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

mod logger {
    use super::*;

    /// UDP messages that fit into the receive buffer of a system that was never tuned.
    const COUNT: usize = 200;

    /// Gives logger the messages; returns what it reports as sent: it writes the same to standard error as to its socket, with a line
    /// feed after each message and, over TCP, another one.
    fn send(setup: &Setup, arguments: &[&str], counted: bool) -> Vec<u8> {
        let mut command = tool("logger", "bsdutils");
        command
            .args(["--stderr", "--tag", "test", "--id=42", "--priority", "local3.warning"])
            .args(arguments);
        command.current_dir(setup.path());
        let output = run(&mut command, &lines(messages(COUNT)));
        let said = String::from_utf8(output.stderr).expect("as it was given");
        let sent: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(sent.len(), COUNT, "logger said {said}");
        let without_count = |line: &&str| match line.split_once(' ') {
            Some((count, message)) if counted => {
                assert_eq!(count, message.len().to_string(), "logger counts the bytes of its message");
                message.to_owned()
            }
            _ => (*line).to_owned(),
        };
        let sent: Vec<String> = sent.iter().map(without_count).collect();
        for (sent, message) in sent.iter().zip(messages(COUNT)) {
            assert!(sent.starts_with("<156>") && sent.ends_with(&message), "logger sent {sent:?}");
        }
        lines(sent)
    }

    #[test]
    fn by_udp() {
        arrives_as_sent("syslog+udp://127.0.0.1:{0}", COUNT, |setup| {
            let port = setup.ports[0].to_string();
            send(setup, &["--server", "127.0.0.1", "--udp", "--port", &port], false)
        });
    }

    #[test]
    fn by_tcp() {
        arrives_as_sent("syslog+tcp://127.0.0.1:{0}", COUNT, |setup| {
            let port = setup.ports[0].to_string();
            send(setup, &["--server", "127.0.0.1", "--tcp", "--port", &port], false)
        });
    }

    #[test]
    fn by_tcp_with_octet_counts() {
        arrives_as_sent("syslog+tcp://127.0.0.1:{0}", COUNT, |setup| {
            let port = setup.ports[0].to_string();
            send(setup, &["--server", "127.0.0.1", "--tcp", "--octet-count", "--port", &port], true)
        });
    }

    #[test]
    fn by_unix_datagram() {
        arrives_as_sent("syslog+unixgram://{dir}/dev-log", COUNT, |setup| {
            send(setup, &["--socket", "dev-log"], false)
        });
    }

    #[test]
    fn by_unix_stream() {
        arrives_as_sent("syslog+unix://{dir}/dev-log", COUNT, |setup| {
            send(setup, &["--socket", "dev-log"], false)
        });
    }
}

#[test]
fn netcat_by_tcp() {
    arrives_as_sent("lines+tcp://127.0.0.1:{0}?on_incomplete=keep", 1002, |setup| {
        let input = [&lines(messages(1000))[..], b"bytes \xff\x00\x80\n", b"no line feed"].concat();
        let mut netcat = tool("nc", "netcat-openbsd");
        run(netcat.args(["-N", "127.0.0.1", &setup.ports[0].to_string()]), &input);
        [&input[..], b"\n"].concat()
    });
}

mod python {
    use super::*;

    const COUNT: usize = 200;
    const SCRIPT: &str = "
import logging, logging.handlers, socket, sys
kind, address = sys.argv[1], sys.argv[2]
if kind == 'unix':
    handler = logging.handlers.SysLogHandler(address)
else:
    host, port = address.rsplit(':', 1)
    kind = socket.SOCK_STREAM if kind == 'tcp' else socket.SOCK_DGRAM
    handler = logging.handlers.SysLogHandler((host, int(port)), 'local3', kind)
logging.raiseExceptions = True
logger = logging.getLogger('test')
logger.addHandler(handler)
for line in sys.stdin.buffer:
    logger.warning(line.decode().removesuffix('\\n'))
logging.shutdown()
";

    /// Priority 156 is local3.warning, 12 is user.warning.
    fn send(kind: &str, address: &str, priority: u32) -> Vec<u8> {
        let mut python = tool("python3", "python3");
        let output = run(python.args(["-c", SCRIPT, kind, address]), &lines(messages(COUNT)));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        lines(messages(COUNT).iter().map(|message| format!("<{priority}>{message}")))
    }

    #[test]
    fn by_udp() {
        let send = |setup: &Setup| send("udp", &setup.address(0).to_string(), 156);
        arrives_as_sent("syslog+udp://127.0.0.1:{0}", COUNT, send);
    }

    #[test]
    fn by_tcp_with_nul_behind_each() {
        let send = |setup: &Setup| send("tcp", &setup.address(0).to_string(), 156);
        arrives_as_sent("syslog+tcp://127.0.0.1:{0}", COUNT, send);
    }

    #[test]
    fn by_unix_datagram() {
        let send = |setup: &Setup| send("unix", &setup.path().join("dev-log").display().to_string(), 12);
        arrives_as_sent("syslog+unixgram://{dir}/dev-log", COUNT, send);
    }
}

mod bbq_send {
    use super::*;

    const COUNT: usize = 10_003;

    /// Lines as files have them: empty ones, a CR inside, NUL and bytes that are no text, none at the end.
    fn input() -> Vec<u8> {
        [&lines(messages(10_000))[..], b"\n\rline\n\xff\x00\n"].concat()
    }

    fn check(output: &Output) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with(&format!("{COUNT} messages acknowledged, ")), "{said:?}");
    }

    #[test]
    fn from_a_file_whose_last_line_has_no_end() {
        arrives_as_sent("bbq+tcp://127.0.0.1:{0}", COUNT, |setup| {
            let file = setup.path().join("input");
            fs::write(&file, input().strip_suffix(b"\n").expect("a line feed")).expect("a file");
            let to = format!("bbq://{}", setup.address(0));
            check(&run(Command::new(BBQ).args(["send", "--to", &to]).arg(&file), b""));
            input()
        });
    }

    #[test]
    fn from_a_pipe() {
        arrives_as_sent("bbq+tcp://127.0.0.1:{0}", COUNT, |setup| {
            let to = format!("bbq://{}", setup.address(0));
            check(&run(Command::new(BBQ).args(["send", "--to", &to]), &input()));
            input()
        });
    }

    #[test]
    fn over_a_unix_socket_and_compressed() {
        arrives_as_sent("bbq+unix://{dir}/bbq", COUNT, |setup| {
            let to = format!("bbq+unix://{}/bbq", setup.path().display());
            check(&run(Command::new(BBQ).args(["send", "--compress", "--to", &to]), &input()));
            input()
        });
    }
}

#[test]
fn the_client_of_the_protocol_page() {
    arrives_as_sent("bbq+tcp://127.0.0.1:{0}", 5000, |setup| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/minimal_client.py");
        let mut python = tool("python3", "python3");
        let output =
            run(python.arg(script).args(["127.0.0.1", &setup.ports[0].to_string()]), &lines(messages(5000)));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "5000", "it says what is acknowledged");
        lines(messages(5000))
    });
}

mod loggen {
    use super::*;

    const CONNECTIONS: usize = 4;
    /// `--number` is for each connection.
    const PER_CONNECTION: usize = 250_000;

    /// Thread and number of a line: `<38>2026-01-01T00:00:00 localhost prg00000[1234]: seq: 0000000000, thread: 0000, ...`.
    fn place(line: &str) -> Option<(usize, usize)> {
        let (_, rest) = line.split_once("]: seq: ")?;
        let (number, rest) = rest.split_once(", thread: ")?;
        let (thread, _) = rest.split_once(',')?;
        Some((thread.parse().ok()?, number.parse().ok()?))
    }

    #[test]
    fn a_million_messages_over_4_connections() {
        let setup = Setup::new(&["syslog+tcp://127.0.0.1:{0}"]);
        let server = setup.start();
        let mut loggen = tool("loggen", "syslog-ng-core");
        loggen.args(["--stream", "--inet", "--quiet", "--size", "200", "--rate", "1000000000"]);
        // The number of messages ends it; on a slow machine the interval, 10 s by default, would end it before.
        loggen.args(["--interval", "600", "--active-connections", &CONNECTIONS.to_string()]);
        loggen.args(["--number", &PER_CONNECTION.to_string()]);
        run(loggen.args(["127.0.0.1", &setup.ports[0].to_string()]), b"");
        server.wait_delivered((CONNECTIONS * PER_CONNECTION) as u64);
        let mut seen = vec![false; CONNECTIONS * PER_CONNECTION];
        for line in String::from_utf8(setup.written()).expect("loggen sends ASCII").lines() {
            assert!(
                line.starts_with("<38>") && line.ends_with("PADD") && line.len() == 199,
                "torn: {line:?}"
            );
            let Some((thread, number)) = place(line) else { panic!("not of loggen: {line:?}") };
            assert!(thread < CONNECTIONS && number < PER_CONNECTION, "not asked for: {line:?}");
            let seen = &mut seen[thread * PER_CONNECTION + number];
            assert!(!*seen, "twice: {line:?}");
            *seen = true;
        }
        assert_eq!(seen.iter().filter(|seen| !**seen).count(), 0, "messages are missing");
    }
}

mod greeter {
    use super::*;

    const PROCESSES: usize = 4;
    const PER_PROCESS: usize = 250;

    /// Compiles the seed's client.
    fn compile(directory: &Path) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/seeds/greeter_client.cpp");
        let program = directory.join("greeter_client");
        run(tool("c++", "g++").args(["-std=c++17", "-O1", "-o"]).arg(&program).arg(source), b"");
        program
    }

    #[test]
    fn a_thousand_connections_of_4_processes_are_a_thousand_messages() {
        let setup = Setup::new(&["whole+tcp://127.0.0.1:{0}"]);
        let program = compile(setup.path());
        let server = setup.start();
        let script = r#"i=0; while [ $i -lt "$3" ]; do "$0" "client $2 says $i" 127.0.0.1 "$1" || exit 1; i=$((i + 1)); done"#;
        let processes: Vec<_> = (0..PROCESSES)
            .map(|process| {
                let mut shell = Command::new("sh");
                shell.args(["-c", script]).arg(&program).arg(setup.ports[0].to_string());
                shell.args([process.to_string(), PER_PROCESS.to_string()]).stderr(Stdio::piped());
                shell.spawn().expect("a shell")
            })
            .collect();
        for mut process in processes {
            let mut said = String::new();
            process.stderr.take().expect("piped").read_to_string(&mut said).expect("it can be read");
            assert!(process.wait().expect("it was ours").success(), "{said}");
        }
        server.wait_delivered((PROCESSES * PER_PROCESS) as u64);
        let written = String::from_utf8(setup.written()).expect("as it was sent");
        let mut written: Vec<&str> = written.lines().collect();
        let mut sent: Vec<String> = (0..PROCESSES * PER_PROCESS)
            .map(|number| format!("client {} says {}", number / PER_PROCESS, number % PER_PROCESS))
            .collect();
        written.sort_unstable();
        sent.sort_unstable();
        assert_eq!(written, sent);
    }
}
