//! If this fails, `bbq send` and a `lines` listener make different messages of a line, or the summary of `bbq send` is wrong.

use std::fs;
use std::process::Command;

use crate::support::{BBQ, Setup, run};

/// A line feed, and one carriage return before it, are no part of a line; carriage returns elsewhere are.
const INPUT: &[u8] = b"unix\ndos\r\n\r\n\ntwo\r\r\nin\rside\r\nopen\r";

#[test]
fn a_line_is_the_same_as_for_a_listener_of_lines() {
    let lines = "lines+tcp://127.0.0.1:{0}?on_incomplete=keep";
    let setup = Setup::new(&[lines, "bbq+tcp://127.0.0.1:{1}"]).with(&["--workers", "1"]);
    let server = setup.start();
    server.send(0, INPUT);
    server.wait_delivered(7);
    let by_lines = setup.written();
    assert_eq!(by_lines, b"unix\ndos\n\n\ntwo\r\nin\rside\nopen\r\n");
    let file = setup.path().join("input");
    fs::write(&file, INPUT).unwrap();
    let to = format!("bbq://{}", setup.address(1));
    run(Command::new(BBQ).args(["send", "--to", &to]).arg(&file), b"");
    server.wait_delivered(14);
    assert_eq!(setup.written(), by_lines.repeat(2), "by a file");
    let said = run(Command::new(BBQ).args(["send", "--to", &to]), INPUT).stderr;
    server.wait_delivered(21);
    assert_eq!(setup.written(), by_lines.repeat(3), "by standard input");
    let said = String::from_utf8_lossy(&said);
    assert!(
        said.starts_with(&format!("7 messages acknowledged, {} B read, ", INPUT.len()))
            && said.ends_with(" s\n"),
        "{said:?}"
    );
}
