//! If this fails, nobody is told that a file cannot be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::files::{Log, assert_each_once, logs, setup};
use crate::support::{BBQ, Setup, refused_start};

/// Root may read every file, unless it lacks this right.
const WITHOUT_RIGHTS: [&str; 2] = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];

#[test]
fn a_file_without_permission_is_a_problem_until_it_may_be_read() {
    let setup = if rustix::process::geteuid().is_root() { setup().prefix(&WITHOUT_RIGHTS) } else { setup() };
    let mut log = Log::create(&logs(&setup), "app");
    log.write(100);
    let path = logs(&setup).join("app.log");
    let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
    set_mode(0o000);
    let server = setup.start();
    let status = server.wait_status("a problem", |status| !status["readers"][0]["problem"].is_null());
    let problem = status["readers"][0]["problem"].as_str().expect("a text");
    assert!(problem.contains("app.log") && problem.contains("Permission denied"), "{problem}");
    let (code, health) = server.health();
    assert!(code == 503 && health.contains("reader logs: ") && health.contains("group"), "{health}");
    let shown = Command::new(BBQ).args(["status", "--admin", &setup.admin()]).output().expect("it runs");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains("read       logs") && shown.contains("problem: "), "{shown}");
    set_mode(0o644);
    server.wait_delivered(log.lines);
    server.wait_status("no problem", |status| status["readers"][0]["problem"].is_null());
    assert_eq!(server.health().0, 200);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_each_once(&setup, &[&log]);
}

#[test]
fn a_pattern_without_files_is_told_and_is_no_problem() {
    let setup = setup();
    let server = setup.start();
    server.wait_status("a warning", |status| {
        status["warnings"].as_array().is_some_and(|warnings| {
            warnings.iter().any(|warning| {
                warning.as_str().is_some_and(|warning| warning.contains("reader logs: no file matches"))
            })
        })
    });
    assert_eq!(server.health().0, 200);
    let mut log = Log::create(&logs(&setup), "late");
    log.write(10);
    server.wait_delivered(log.lines);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn one_name_for_two_sources_is_refused() {
    for (other, says) in [("--read", "another reader has the name"), ("--listen", "a listener has the name")]
    {
        let setup = Setup::new(&[]);
        let spec = match other {
            "--read" => "file:/nowhere/*.log?name=logs".to_owned(),
            _ => setup.fill("lines+tcp://127.0.0.1:{0}?name=logs"),
        };
        let mut command = setup.command();
        command.args(["--read", "file:/elsewhere/*.log?name=logs", other, &spec]);
        let (code, text) = refused_start(&mut command);
        assert!(code == Some(2) && text.contains(says) && text.contains("name="), "{code:?} {text}");
    }
}
