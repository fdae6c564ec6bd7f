//! If this fails, a C or C++ program that ends right after its last message loses messages.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::support::Setup;
use crate::support::native::{Library, program};

const MESSAGES: u64 = 1000;

/// Lets the program end in a given way, and checks that all its messages have arrived.
fn ends(program: &Path, way: &str) -> ExitStatus {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut command = Command::new(program);
    command.args([way, &format!("bbq://{}", setup.address(0)), &MESSAGES.to_string()]);
    // Where a core may be left.
    command.current_dir(setup.path()).stdin(Stdio::null()).stderr(Stdio::null());
    let status = command.status().expect("it starts");
    // The program has waited, so no more messages come: those that have not arrived never will.
    assert_eq!(
        server.status()["ledger"]["received"],
        MESSAGES,
        "a program that ends by {way} loses messages"
    );
    server.wait_delivered(MESSAGES);
    let expected: String = (0..MESSAGES).map(|number| format!("message {number}\n")).collect();
    assert!(setup.written() == expected.as_bytes(), "{way}: {}", String::from_utf8_lossy(&setup.written()));
    status
}

#[test]
fn a_program_that_ends_right_after_its_last_message_loses_none() {
    const ABORTED: i32 = 6;
    let library = Library::install();
    let program = library.compile(&program("exit.cpp"), &["spdlog", "bbq"]);
    let in_order = [
        "return",
        "exit",
        "exit in a thread",
        "main thread ends",
        "global",
        "thread",
        "spdlog",
        "_exit after a flush",
    ];
    for way in in_order {
        let status = ends(&program, way);
        assert!(status.success(), "{way}: {status}");
    }
    for way in ["exception", "exception in a thread"] {
        let status = ends(&program, way);
        assert_eq!(status.signal(), Some(ABORTED), "{way}: {status}");
    }
}
