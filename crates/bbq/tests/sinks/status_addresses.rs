//! If this fails, `bbq status` with a wrong address hangs, or shows another program's answer as a server's, or does not say what to do.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use crate::support::{BBQ, Setup, refused_start};

/// The exit code and the output, which always names the address and the remedy.
fn status(admin: SocketAddr, arguments: &[&str]) -> String {
    let (code, text) =
        refused_start(Command::new(BBQ).args(["status", "--admin", &admin.to_string()]).args(arguments));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&admin.to_string()) && text.contains("--admin"), "{text}");
    text
}

/// Another program that reads a request, writes this, and ends the connection.
fn answering(answer: &'static [u8]) -> (SocketAddr, thread::JoinHandle<TcpListener>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it is asked");
        let _request = stream.read(&mut [0; 1024]).expect("a request");
        stream.write_all(answer).expect("it listens");
        // Open while `bbq status` looks for its process.
        listener
    });
    (address, other)
}

#[test]
fn nobody_is_told_from_somebody_else() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let text = status(free, &[]);
    assert!(text.contains("no server listens at") && text.contains("bbq serve"), "{text}");
    for (answer, words) in [
        (&b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..], "404 Not Found"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "is not a status of bbq"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "is not a status of bbq"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "does not speak HTTP"),
        (b"", "without an answer"),
    ] {
        let (address, other) = answering(answer);
        let text = status(address, &["--json"]);
        assert!(text.contains("not the admin of a bbq server") && text.contains(words), "{text}");
        assert!(text.contains(&format!("pid {} ", std::process::id())), "whose it is: {text}");
        drop(other.join().expect("it was asked"));
    }
}

#[test]
fn a_listener_for_messages_is_no_admin_and_one_that_stands_still_may_be() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}", "bbq+tcp://127.0.0.1:{1}"]);
    let server = setup.start();
    for (listener, words) in [(0, "without an answer"), (1, "does not speak HTTP")] {
        let text = status(setup.address(listener), &[]);
        assert!(text.contains("not the admin of a bbq server") && text.contains(words), "{text}");
        assert!(!text.contains("slow to answer"), "{text}");
    }
    let admin = setup.admin().parse().expect("an address");
    server.freeze();
    let text = status(admin, &[]);
    assert!(text.contains("slow to answer") && text.contains("it is stuck"), "{text}");
    server.signal(libc::SIGCONT);
    assert_eq!(server.status()["ready"], true);
}

#[test]
fn waiting_for_nobody_says_what_was_found() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let text = status(free, &["--wait", "0.5"]);
    assert!(text.contains("no server is ready") && text.contains("no server listens at"), "{text}");
}

#[test]
fn the_log_names_the_admin() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    server.wait_log(&format!(" admin={} page=\"http://{}/\"\n", setup.admin(), setup.admin()));
}
