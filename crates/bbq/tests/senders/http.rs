//! If this fails, a request with the response 200 is not on disk, a request is taken in part, or the response of a refused request does
//! not say why and what to do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::json;

use crate::curl::{curl, post};
use crate::support::fault::Fault;
use crate::support::{PATIENCE, Setup, assert_balanced};

#[test]
fn what_was_answered_is_on_disk_and_comes_out_once() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}", "http+unix://{dir}/socket"]);
    let server = setup.start();
    let answer = post(&setup, "/", b"one\nmessage");
    assert_eq!((answer.status, answer.body), (200, json!({ "taken": 1, "ack": "durable" })));
    let lines = post(&setup, "/ndjson", b"{\"a\":1}\r\n\n{\"a\":2}\n{\"a\":3}");
    assert_eq!((lines.status, lines.body), (200, json!({ "taken": 3, "ack": "durable" })));
    assert!(lines.head.contains("content-type: application/json"), "{}", lines.head);
    let chunked = ["--header", "Transfer-Encoding: chunked", "--header", "Expect: 100-continue"];
    let address = format!("http://{}/ndjson?ack=received", setup.address(0));
    let received = curl(&[&chunked[..], &["--data-binary", "@-", &address]].concat(), b"four\n");
    assert_eq!((received.status, received.body), (202, json!({ "taken": 1, "ack": "received" })));
    let socket = setup.path().join("socket").display().to_string();
    let local = curl(&["--unix-socket", &socket, "--data-binary", "@-", "http://bbq/"], b"local");
    assert_eq!(local.status, 200);
    assert_eq!(post(&setup, "/ndjson", b"\n\n").body, json!({ "taken": 0, "ack": "durable" }));
    assert_balanced(&server.wait_delivered(6));
    server.kill();
    let server = setup.start();
    assert_balanced(&server.wait_delivered(6));
    assert_eq!(server.stop(), Some(0));
    let written = String::from_utf8(setup.written()).expect("text");
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort_unstable();
    // Connections are spread over workers, so there is no order among them.
    assert_eq!(lines, ["four", "local", "message", "one", "{\"a\":1}", "{\"a\":2}", "{\"a\":3}"]);
}

#[test]
fn a_killed_server_has_everything_that_it_answered() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut answered = 0;
    // Several requests on one connection, the last of them without a response.
    let stream = TcpStream::connect(setup.address(0)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    for number in 0..300 {
        let body = format!("message {number}");
        let request = format!("POST / HTTP/1.1\r\nHost: bbq\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        (&stream).write_all(request.as_bytes()).expect("it reads");
        if number == 299 {
            break;
        }
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).expect("it answers");
            answered += u32::from(line.starts_with("HTTP/1.1 200"));
        }
        reader.read_line(&mut line).expect("a body");
    }
    assert_eq!(answered, 299);
    server.kill();
    let server = setup.start();
    server.wait_status("what was answered", |status| status["ledger"]["delivered"].as_u64() >= Some(299));
    assert_eq!(server.stop(), Some(0));
    let written = String::from_utf8(setup.written()).expect("text");
    let expected: String = (0..299).map(|number| format!("message {number}\n")).collect();
    assert!(written.starts_with(&expected), "in order, each once");
    assert!(written.lines().count() <= 300, "{written}");
}

#[test]
fn a_mistake_is_told_and_nothing_of_it_is_taken() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}?message_bytes_max=1KiB"]);
    let server = setup.start();
    let long = vec![b'x'; 1025];
    let long_line = [b"short\n".as_slice(), &long].concat();
    let large = vec![b'\n'; 16 * 1024 * 1024 + 1];
    let url = format!("http://{}/", setup.address(0));
    for (answer, status, says) in [
        (post(&setup, "/nowhere", b"x"), 404, "/ndjson"),
        (post(&setup, "/?ack=surely", b"x"), 400, "ack=durable"),
        (post(&setup, "/", &long), 413, "longer than 1024 bytes"),
        (post(&setup, "/ndjson", &long_line), 413, "longer than 1024 bytes"),
        (post(&setup, "/ndjson", &large), 413, "longer than 16777216 bytes"),
        (curl(&["--request", "PUT", &url], b""), 405, "POST"),
        (
            curl(&["--header", "Content-Encoding: br", "--data-binary", "@-", &url], b"x"),
            415,
            "gzip, deflate, zstd",
        ),
        (curl(&["--header", "Content-Encoding: gzip", "--data-binary", "@-", &url], b"x"), 400, "cut short"),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(answer.body["error"].as_str().is_some_and(|text| text.contains(says)), "{}", answer.body);
    }
    // Half a request is not taken.
    let mut half = TcpStream::connect(setup.address(0)).expect("it listens");
    half.write_all(b"POST / HTTP/1.1\r\nHost: bbq\r\nContent-Length: 9\r\n\r\nhalf").expect("it reads");
    half.shutdown(std::net::Shutdown::Write).expect("it is open");
    half.read_to_end(&mut Vec::new()).expect("it is closed");
    assert_eq!(post(&setup, "/", b"good").status, 200);
    let status = server.wait_delivered(1);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["received"], 1, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"good\n");
}

#[test]
fn a_full_spool_is_told_before_the_body_is_read_and_later_taken() {
    let mut setup = Setup::new(&["http+tcp://127.0.0.1:{0}"])
        .with(&["--workers", "1"])
        .config("batch_timeout_seconds = 1\n[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"4MiB\"\n");
    setup.set_sinks(&["stdout:"]);
    let mut server = setup.start_writing_to(Stdio::piped());
    let mut pipe = server.child.stdout.take().expect("piped");
    let body = [b'x'; 100_000];
    let mut taken = 0;
    let refused = loop {
        let answer = post(&setup, "/", &body);
        match answer.status {
            200 => taken += 1,
            // It came when there was no room, and waits for the lane's memory.
            504 => {
                assert!(
                    answer.body["error"].as_str().is_some_and(|text| text.contains("twice")),
                    "{}",
                    answer.body
                );
                taken += 1;
            }
            _ => break answer,
        }
        assert!(taken < 1000, "a spool of 4 MiB takes no 100 MB");
    };
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        pipe.read_to_end(&mut output).map(|_| output.len())
    });
    server.wait_status("room", |status| status["ledger"]["queued"] == 0);
    assert_eq!(post(&setup, "/", &body).status, 200);
    let status = server.wait_delivered(taken + 1);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], json!({}), "{status:#}");
    assert_eq!(server.stop(), Some(0));
    let written = reader.join().expect("it only reads").expect("it is a pipe");
    assert_eq!(written as u64, (taken + 1) * 100_001);
}

#[test]
fn a_request_that_comes_while_the_disk_is_slow_waits_and_is_not_refused() {
    // A lane holds little in memory.
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"])
        .with(&["--workers", "1"])
        .config("[spool]\nsegment_bytes = \"64KiB\"\n");
    let server = setup.start();
    let slow = Fault::inject(server.pid(), "lane-0", "fdatasync:delay_enter=3000000:when=1");
    let received = |bytes: usize| post(&setup, "/?ack=received", &vec![b'x'; bytes]).status;
    assert_eq!(received(100), 202);
    slow.wait_held(server.pid(), libc::SYS_fdatasync);
    assert_eq!(received(20_000), 202);
    server.wait_status("a message in the lane", |status| status["ledger"]["received"] == 2);
    // Full, and the lane has no room for it.
    assert_eq!(received(300_000), 202, "a batch");
    assert_eq!(post(&setup, "/", b"waits").status, 200, "{}", setup.log());
    assert_balanced(&server.wait_delivered(4));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_disk_that_fails_is_told_and_nothing_is_counted_as_received() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let server = setup.start();
    assert_eq!(post(&setup, "/", b"before").status, 200);
    server.wait_delivered(1);
    let _fault = Fault::inject(server.pid(), "lane-0", "fdatasync,pwrite64:error=EIO");
    let answer = post(&setup, "/", b"lost");
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body["error"].as_str().is_some_and(|text| text.contains("disk")), "{}", answer.body);
    let status = server.status();
    assert_eq!(status["ledger"]["received"], 1, "{status:#}");
    assert_eq!(status["ledger"]["dropped"], json!({}), "its sender knows, and has it: {status:#}");
    assert_eq!(post(&setup, "/", b"lost").status, 503, "and the next");
}

/// The memory of unfinished requests has a limit, even if their clients send nothing more.
#[test]
fn half_requests_do_not_take_all_memory() {
    const MIB: usize = 1024 * 1024;
    let setup =
        Setup::new(&["http+tcp://127.0.0.1:{0}"]).config("workers = 1\nunfinished_bytes_max = \"64MiB\"\n");
    let server = setup.start();
    let head = format!("POST /ndjson HTTP/1.1\r\nHost: bbq\r\nContent-Length: {}\r\n\r\n", 16 * MIB);
    let half = vec![b'x'; 4 * MIB];
    let mut clients: Vec<TcpStream> = Vec::new();
    for _ in 0..40 {
        let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        client.write_all(head.as_bytes()).expect("it reads");
        client.write_all(&half).expect("it reads, or has answered");
        clients.push(client);
    }
    // 40 times 4 MiB is 96 MiB too much: at least 24 of them, the oldest ones.
    for client in clients.iter_mut().take(24) {
        let mut answer = [0; 12];
        client.read_exact(&mut answer).expect("it is answered");
        assert_eq!(&answer, b"HTTP/1.1 503");
    }
    drop(clients);
    assert_eq!(post(&setup, "/", b"good").status, 200);
    assert_balanced(&server.wait_delivered(1));
    assert_eq!(server.stop(), Some(0));
}
