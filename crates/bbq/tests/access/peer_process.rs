//! If this fails, nobody can tell which process sent a message by a unix socket, or a message names the wrong one.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{BBQ, Setup};

/// Another user than the one that runs the tests: nobody.
const OTHER_USER: u32 = 65_534;

const LISTEN: [&str; 4] = [
    "lines+unix://{dir}/lines",
    "syslog+unixgram://{dir}/syslog",
    "http+unix://{dir}/http",
    "bbq+unix://{dir}/bbq",
];

/// Runs a sender to its end. Returns its process id and its user.
fn send(setup: &Setup, line: &str, is_other_user: bool) -> (u64, u64) {
    let line = line.replace("{dir}", &setup.path().display().to_string());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {line}")]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut user = rustix::process::geteuid().as_raw();
    if is_other_user && user == 0 {
        user = OTHER_USER;
        command.uid(user).gid(user);
    }
    let mut sender = command.spawn().expect("it starts");
    assert!(sender.wait().expect("it ends").success(), "{line}");
    (sender.id().into(), user.into())
}

#[test]
fn each_message_names_the_process_that_sent_it() {
    let setup = Setup::new(&LISTEN).with(&["--workers", "2"]).sink_query("?format=json");
    fs::set_permissions(setup.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let server = setup.start();
    fs::write(setup.path().join("line"), "by bbq\n").expect("a file");
    let senders = [
        ("by lines", "logger --socket {dir}/lines --rfc3164 'by lines'".to_owned()),
        ("by syslog", "logger --socket {dir}/syslog 'by syslog'".to_owned()),
        ("by http", "curl -sS -f --unix-socket {dir}/http -d 'by http' http://localhost/".to_owned()),
        ("by bbq", format!("{BBQ} send --to bbq+unix://{{dir}}/bbq {{dir}}/line")),
    ];
    let mut sent = Vec::new();
    for is_other_user in [false, true] {
        // Others may not be allowed to run the program that is tested.
        let senders = if is_other_user { &senders[..3] } else { &senders[..] };
        for (text, line) in senders {
            sent.push((*text, send(&setup, line, is_other_user)));
            server.wait_delivered(sent.len() as u64);
        }
    }
    assert_eq!(server.stop(), Some(0));
    let written = String::from_utf8(setup.written()).expect("text");
    let records: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(records.len(), sent.len());
    for (text, (pid, user)) in sent {
        let is_it = |record: &&Value| {
            record["peer_pid"] == pid
                && record["message"].as_str().is_some_and(|message| message.contains(text))
        };
        let record = records.iter().find(is_it).unwrap_or_else(|| panic!("{text} by {pid}: {written}"));
        assert_eq!(
            (&record["peer_uid"], &record["peer_gid"]),
            (&user.into(), &gid_of(user).into()),
            "{record}"
        );
        assert!(record.get("peer").is_none(), "{record}");
    }
}

fn gid_of(user: u64) -> u64 {
    if user == u64::from(OTHER_USER) { user } else { rustix::process::getegid().as_raw().into() }
}
