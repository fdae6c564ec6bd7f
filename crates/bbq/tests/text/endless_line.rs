//! If this fails, `bbq send` of a file that is no text takes memory without bound, or sends a part of the file.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{BBQ, free_ports};

#[test]
fn a_line_that_no_server_takes_is_refused_before_it_ends() {
    // No server listens there: the refusal needs none.
    let mut child = Command::new(BBQ)
        .args(["send", "--to", &format!("127.0.0.1:{}", free_ports(1)[0])])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let zeros = vec![0; 1024 * 1024];
    let taken = (0..64).take_while(|_| stdin.write_all(&zeros).is_ok()).count();
    assert!(taken < 64, "64 MiB without a line feed were taken");
    let output = child.wait_with_output().expect("it was ours");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("line 1 has over 8388608 bytes"), "{said}");
}
