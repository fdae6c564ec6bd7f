//! If this fails, messages are dropped and neither the log nor /health tells.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;

use crate::support::{Server, Setup};

/// Waits until the log has a line with all of these words, and returns it.
fn wait_line(server: &Server<'_>, words: &[&str]) -> String {
    let line = || {
        let log = server.setup.log();
        log.lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
    };
    server.wait_status(&format!("a line with {words:?}"), |_| line().is_some());
    line().expect("it was there")
}

fn lines_told(setup: &Setup) -> usize {
    setup.log().matches("messages dropped").count()
}

#[test]
fn what_the_kernel_drops_is_told_while_the_server_runs() {
    let setup = Setup::new(&["lines+udp://127.0.0.1:{0}?receive_buffer_bytes=4096"]);
    let server = setup.start();
    server.freeze();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for _ in 0..500 {
        socket.send_to(&[b'x'; 500], setup.address(0)).expect("it listens");
    }
    server.signal(libc::SIGCONT);
    let line = wait_line(&server, &["ERROR", "messages dropped", "reason=\"kernel\"", "net.core.rmem_max"]);
    let status = server.status();
    let dropped = status["listeners"][0]["ledger"]["dropped"]["kernel"].as_u64().expect("a count");
    assert!(line.contains(&format!("count={dropped} ")), "{line}\n{status:#}");
    let (code, text) = server.health();
    assert!(code == 503 && text.contains(&format!("{dropped} messages dropped (kernel)")), "{text}");
    assert_eq!(lines_told(&setup), 1);
}

#[test]
fn what_a_full_spool_drops_is_told_in_sums() {
    let config = "sink = []\n[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"2MiB\"\n";
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?on_full=drop-newest"])
        .with(&["--workers", "1"])
        .config(config);
    setup.set_sinks(&[]);
    let server = setup.start();
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    let lines = [&[b'x'; 999][..], b"\n"].concat().repeat(100);
    let dropped = || server.status()["ledger"]["dropped"]["full"].as_u64().unwrap_or(0);
    while dropped() == 0 {
        client.write_all(&lines).expect("it reads");
    }
    wait_line(&server, &["ERROR", "messages dropped", "reason=\"full\"", "drop-newest"]);
    let (code, text) = server.health();
    assert!(code == 503 && text.contains("messages dropped (full)"), "{text}");
    // Drops go on, and are not logged each second.
    let began = server.status()["uptime_seconds"].as_u64().unwrap();
    let told = lines_told(&setup);
    while server.status()["uptime_seconds"].as_u64().unwrap() < began + 3 {
        client.write_all(&lines).expect("it reads");
    }
    assert!(lines_told(&setup) <= told + 1, "{}", setup.log());
    drop(client);
    // The end logs the rest: the sum of all lines is what was dropped.
    server.wait_status("the end of the connection", |status| status["workers"][0]["connections"] == 0);
    let all = dropped();
    server.stop();
    let log = setup.log();
    let sum: u64 = log
        .lines()
        .filter(|line| line.contains("messages dropped") && line.contains("\"full\""))
        .map(|line| line.split("count=").nth(1).unwrap().split(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, all, "{log}");
}

#[test]
fn what_single_senders_do_wrong_is_told_and_leaves_the_server_in_service() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?message_bytes_max=10", "bbq+udp://127.0.0.1:{1}"]);
    let server = setup.start();
    server.send(0, b"longer than ten bytes\nhalf a l");
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    socket.send_to(b"no batch", setup.address(1)).expect("it is sent");
    for reason in ["oversize", "incomplete", "malformed"] {
        wait_line(&server, &["WARN", "messages dropped", &format!("reason=\"{reason}\"")]);
        let (code, text) = server.health();
        assert!(code == 200 && text.contains(&format!("1 message dropped ({reason})")), "{text}");
    }
    assert!(server.status()["problems"].as_array().unwrap().is_empty());
}

#[test]
fn the_ledger_of_drops_is_written_only_when_it_has_changed() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?message_bytes_max=10"]);
    let server = setup.start();
    server.send(0, b"longer than ten bytes\n");
    let path = setup.data().join("ledger");
    let is_saved = || fs::read_to_string(&path).is_ok_and(|text| text.contains("oversize"));
    server.wait_status("a saved drop", |_| is_saved());
    let written = fs::metadata(&path).unwrap();
    let began = server.status()["uptime_seconds"].as_u64().unwrap();
    server.wait_status("three more looks", |status| status["uptime_seconds"].as_u64() >= Some(began + 4));
    let now = fs::metadata(&path).unwrap();
    assert_eq!((written.ino(), written.mtime_nsec()), (now.ino(), now.mtime_nsec()));
}
