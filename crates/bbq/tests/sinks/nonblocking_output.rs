//! If this fails, standard output that is a pipe in non-blocking mode gets messages in pieces, twice or not at all.

use std::io::{Read, pipe};
use std::os::fd::OwnedFd;

use crate::support::Setup;
use rustix::fs::{OFlags, fcntl_setfl};

const LINES: u64 = 20_000;

#[test]
fn each_message_comes_once_and_whole() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    setup.set_sinks(&["stdout:"]);
    let (mut reader, writer) = pipe().expect("a pipe");
    // As a parent's event loop leaves the pipe: reader and writer each have their own flags.
    fcntl_setfl(&writer, OFlags::NONBLOCK).expect("a pipe has that mode");
    let server = setup.start_writing_to(OwnedFd::from(writer));
    let text: String = (0..LINES).map(|number| format!("line {number} {:x<60}\n", "")).collect();
    let read = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("it is a pipe");
        all
    });
    server.send(0, text.as_bytes());
    server.wait_delivered(LINES);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let all = read.join().expect("it only reads");
    let (all, text) = (String::from_utf8_lossy(&all), text.as_str());
    assert!(all == text, "{} lines of {LINES}, {} bytes of {}", all.lines().count(), all.len(), text.len());
}
