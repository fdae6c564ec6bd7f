//! A thread or a process that the system does not let run while it says that it sleeps. No signal has stopped it, and it cannot say
//! anything: strace(1) holds it where its wait for events returns.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::example::Example;

/// It is held once. It goes on when this is dropped.
pub(crate) struct Frozen(Child);

impl Frozen {
    /// Holds the task of this number for so long, at most.
    pub(crate) fn attach(number: &str, time: Duration) -> Frozen {
        let what = format!("inject=epoll_wait,epoll_pwait:delay_exit={}:when=1", time.as_micros());
        let mut strace = Command::new("strace")
            .args(["-o", "/dev/null", "-e", &what, "-p", number])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(strace.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("attached"), "{line}");
        // Later output must not stop strace.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Frozen(strace)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ended = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ended = self.0.wait();
    }
}

/// A connection, a request and its response: how long that takes.
pub(crate) fn ask(server: &Example) -> Duration {
    let start = Instant::now();
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    start.elapsed()
}
