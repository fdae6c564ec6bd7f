//! If this fails, a data directory that was restored from an older copy costs lines that a sink had delivered.

use std::fs;
use std::process::Command;

use crate::support::{Setup, run};

fn text(from: u64, until: u64) -> String {
    (from..until).map(|number| format!("line {number}\n")).collect()
}

#[test]
fn delivered_lines_that_the_spool_does_not_have_are_kept() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let server = setup.start();
    server.send(0, text(0, 100).as_bytes());
    server.wait_delivered(100);
    assert_eq!(server.stop(), Some(0));
    let copy = setup.path().join("copy");
    run(Command::new("cp").arg("-a").arg(setup.data()).arg(&copy), b"");
    let server = setup.start();
    server.send(0, text(100, 300).as_bytes());
    server.wait_delivered(300);
    assert_eq!(server.stop(), Some(0));
    fs::remove_dir_all(setup.data()).expect("the data directory");
    fs::rename(&copy, setup.data()).expect("the copy takes its place");
    // The start finds 200 lines that nothing in the spool can replace.
    let server = setup.start();
    let finding = |name: &str| {
        let status = server.wait_status(name, |status| status["findings"].to_string().contains(name));
        let findings = status["findings"].as_array().expect("a list").clone();
        findings.into_iter().find(|finding| finding["name"] == name).expect("it was there")
    };
    let finding = finding("output-set-aside");
    let kept_in = fs::read_dir(setup.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().contains(".beyond-cursor-"))
        .expect("the lines are kept");
    let told = finding["text"].as_str().expect("a text");
    assert!(told.contains("200 lines") && told.contains(&kept_in.display().to_string()), "{told}");
    setup.wait_log("200 lines that its cursor does not cover");
    assert_eq!(fs::read_to_string(&kept_in).expect("a file"), text(100, 300));
    server.send(0, b"new\n");
    server.wait_delivered(101);
    assert_eq!(String::from_utf8_lossy(&setup.written()), text(0, 100) + "new\n");
    // Nothing is new to the next start.
    assert_eq!(server.stop(), Some(0));
    let server = setup.start();
    assert!(!server.status()["findings"].to_string().contains("output-set-aside"));
}
