//! If this fails, a mistake in a C program ends the program or is ignored, instead of being named.

use std::process::Command;

use crate::support::native::{Library, program};
use crate::support::{Setup, run};

#[test]
fn mistakes_are_answered_with_a_status_and_a_text() {
    let library = Library::install();
    let program = library.compile(&program("misuse.c"), &["bbq"]);
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut command = Command::new("timeout");
    command
        .arg("100")
        .arg(program)
        .arg(format!("bbq://{}", setup.address(0)))
        .arg(setup.path().join("spool"));
    run(&mut command, b"");
    let status =
        server.wait_status("both messages", |status| status["ledger"]["delivered"].as_u64() >= Some(2));
    let report = b"were dropped before this one";
    let written = setup.written();
    let reports = written.windows(report.len()).filter(|window| window == report).count() as u64;
    assert_eq!(status["ledger"]["delivered"], 2 + reports, "{status:#}");
    assert!(written.windows(11).any(|window| window == b"zero\0inside"), "{written:?}");
}
