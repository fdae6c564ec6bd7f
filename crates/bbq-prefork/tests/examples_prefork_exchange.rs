//! If this fails, `prefork` gives a client no answer or a wrong one: one that is slow, one whose process is killed in the middle
//! of what it gets, one that does not speak HTTP, or one that comes when there are no descriptors.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../bbq-listen/tests/examples/example.rs"]
mod example;

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;

use example::Example;
use rustix::process::{Pid, Signal, kill_process};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_client_that_asks_much_and_reads_late_gets_everything_from_whoever_is_there() {
    // Several times what the sockets' buffers hold in answers (4 MiB, net.ipv4.tcp_wmem).
    const REQUESTS: usize = 100_000;
    const KILLS: usize = 10;
    let prefork = Example::start("prefork", &["--processes", "1"]);
    let stream = prefork.connect();
    socket2::SockRef::from(&stream).set_recv_buffer_size(16 * 1024).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    std::thread::scope(|threads| {
        // It must wait for us: the server reads nothing while it has a part of an answer to write.
        threads.spawn(move || {
            writer.write_all(GET.repeat(REQUESTS).as_bytes()).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut pids = Vec::new();
        for _ in 0..KILLS {
            pids.extend((0..REQUESTS / KILLS).map(|_| one_answer(&mut reader)));
            kill_process(only_child(&prefork), Signal::KILL).unwrap();
        }
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "more than was asked for");
        pids.dedup();
        assert!(pids.len() > 2, "no successor had anything to write: {pids:?}");
    });
    assert!(prefork.terminate().success);
}

#[test]
fn half_a_request_is_not_lost_with_the_process_that_read_it() {
    let prefork = Example::start("prefork", &["--processes", "1"]);
    let (mut slow, mut other) = (prefork.connect(), prefork.connect());
    for cut in 1..GET.len() {
        let (first, rest) = GET.split_at(cut);
        slow.write_all(first.as_bytes()).unwrap();
        // Whoever answers this has read that.
        for _ in 0..2 {
            other.write_all(GET.as_bytes()).unwrap();
            one_answer(&mut other);
        }
        let reader = only_child(&prefork);
        kill_process(reader, Signal::KILL).unwrap();
        slow.write_all(rest.as_bytes()).unwrap();
        assert_ne!(one_answer(&mut slow), reader.as_raw_nonzero().get());
    }
    assert!(prefork.terminate().success);
}

#[test]
fn what_is_no_request_is_refused_and_the_answer_arrives() {
    let prefork = Example::start("prefork", &["--processes", "2"]);
    for (request, status) in [
        ("GARBAGE\r\n\r\nand more", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGARBAGE\r\n\r\n", "200"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "405"),
        (&format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(60_000)), "431"),
    ] {
        let mut stream = prefork.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut buffer = [0; 1024];
        // By its own end, before we end: so it is the server that hangs up.
        loop {
            let length = stream.read(&mut buffer).unwrap();
            answer.extend_from_slice(&buffer[..length]);
            if length == 0 {
                break;
            }
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.60?}: {answer:?}");
        assert!(answer.contains("Connection: close\r\n\r\n"), "{answer:?}");
    }
    // Half a request, and no other half.
    let mut stream = prefork.connect();
    stream.write_all(b"GET / HT").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert!(prefork.terminate().success);
}

#[test]
fn connections_wait_while_there_are_no_descriptors() {
    for distribution in ["reuseport", "shared", "accept-mutex", "handoff"] {
        let mut limited = Command::new("prlimit");
        limited.arg("--nofile=64").arg(example::command("prefork").get_program());
        let prefork = Example::run(&mut limited, &["--processes", "2", "--distribution", distribution]);
        let silent: Vec<TcpStream> = (0..100).map(|_| prefork.connect()).collect();
        let mut late = prefork.connect();
        late.write_all(GET.as_bytes()).unwrap();
        drop(silent);
        assert!(one_answer(&mut late) > 0, "{distribution}");
        let ended = prefork.terminate();
        assert!(ended.success && ended.workers.len() == 2, "{distribution}: {:?}", ended.workers);
    }
}

/// The process that the next answer is of.
fn one_answer(stream: &mut impl Read) -> i32 {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nDate: "), "{head}");
    let length = head.split("Content-Length: ").nth(1).unwrap().lines().next().unwrap();
    let mut page = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    page.strip_prefix("process ").unwrap().trim_end().parse().unwrap()
}

/// The child of a `prefork` that has one, now or in a moment.
fn only_child(prefork: &Example) -> Pid {
    let master = prefork.pid.as_raw_nonzero();
    loop {
        let pids = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
        if let Some(pid) = pids.split_whitespace().next() {
            return Pid::from_raw(pid.parse().unwrap()).unwrap();
        }
        std::thread::yield_now();
    }
}
