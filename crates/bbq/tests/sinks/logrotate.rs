//! If this fails, messages are in no file, or in two, after another program has rotated the output; or nobody is told that it was cut
//! short.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{PATIENCE, Server, Setup, assert_balanced, pause};

const LISTEN: [&str; 1] = ["lines+tcp://127.0.0.1:{0}"];
const ROTATIONS: usize = 12;

fn setup() -> Setup {
    let mut setup = Setup::new(&LISTEN).with(&["--workers", "1"]);
    fs::create_dir(setup.path().join("logs")).expect("a directory");
    setup.set_sinks(&["file:{dir}/logs/out.log"]);
    setup
}

/// Runs logrotate once, as cron does, with these directives.
fn rotate(setup: &Setup, pid: u32, directives: &str) {
    let path = setup.path();
    let text = format!(
        "\"{0}/logs/out.log\" {{\n rotate 1000\n {directives}\n postrotate\n  kill -HUP {pid}\n endscript\n}}\n",
        path.display()
    );
    let file = path.join("logrotate.conf");
    fs::write(&file, text).expect("a configuration");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its owner's");
    let state = path.join("logrotate.state");
    let ran =
        Command::new("/usr/sbin/logrotate").arg("--force").arg("--state").args([&state, &file]).output();
    let ran = ran.expect("logrotate, of the package of this name");
    assert!(ran.status.success(), "{ran:?}");
}

/// The lines of all files, the compressed ones, too.
fn lines(setup: &Setup) -> Vec<u64> {
    let mut all = Vec::new();
    for entry in fs::read_dir(setup.path().join("logs")).expect("a directory") {
        let path = entry.expect("an entry").path();
        let text = if path.extension().is_some_and(|extension| extension == "gz") {
            Command::new("zcat").arg(&path).output().expect("gzip").stdout
        } else {
            fs::read(&path).expect("a file")
        };
        let text = String::from_utf8(text).expect("as it was sent");
        assert!(text.is_empty() || text.ends_with('\n'), "{} ends in the middle of a line", path.display());
        all.extend(text.lines().map(|line| line.trim_start_matches('x').parse::<u64>().expect("a number")));
    }
    all
}

/// Sends numbered lines until it is told to stop, and then some more; returns how many.
fn send_while(server: &Server<'_>, body: impl FnOnce()) -> u64 {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut stream = TcpStream::connect(server.setup.address(0)).expect("it listens");
            stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                let text: String =
                    (sent..sent + 200).map(|number| format!("{}{number}\n", "x".repeat(60))).collect();
                stream.write_all(text.as_bytes()).expect("it reads");
                sent += 200;
                pause();
            }
            sent
        });
        body();
        is_over.store(true, Ordering::Relaxed);
        sender.join().expect("it sends")
    })
}

fn each_once(setup: &Setup, sent: u64) {
    let found = lines(setup);
    let distinct: BTreeSet<u64> = found.iter().copied().collect();
    assert_eq!(
        distinct.len() as u64,
        sent,
        "lines are in no file; {} were found\n{}",
        found.len(),
        setup.log()
    );
    assert_eq!(found.len() as u64, sent, "lines are in two files\n{}", setup.log());
}

/// The old file is compressed and deleted right behind the signal, without `delaycompress`.
#[test]
fn every_line_is_in_one_file_when_logrotate_compresses_at_once() {
    let setup = setup();
    let server = setup.start();
    let sent = send_while(&server, || {
        for _ in 0..ROTATIONS {
            rotate(&setup, server.pid(), "create\n compress");
        }
    });
    let status = server.wait_delivered(sent);
    assert_eq!(status["sinks"][0]["truncations"], 0);
    each_once(&setup, sent);
    let files: Vec<_> = fs::read_dir(setup.path().join("logs"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(files.len(), ROTATIONS + 1, "{files:?}\n{}", setup.log());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Whatever the configuration is: whoever has moved a file away asks for no more than that.
#[test]
fn the_file_is_opened_again_by_a_reload_that_is_refused() {
    let setup = setup().config("# as it is\n");
    let server = setup.start();
    server.send(0, b"1\n");
    server.wait_delivered(1);
    let (output, aside) = (setup.path().join("logs/out.log"), setup.path().join("logs/out.log.1"));
    fs::write(setup.path().join("bbq.toml"), "workerz = 1\n").expect("a configuration");
    fs::rename(&output, &aside).expect("it is there");
    server.signal(libc::SIGHUP);
    server.wait_log("refused; the server continues as before");
    server.wait_status("a new file", |_| output.exists());
    server.send(0, b"2\n");
    server.wait_delivered(2);
    assert_eq!(fs::read(&aside).expect("a file"), b"1\n");
    assert_eq!(fs::read(&output).expect("a file"), b"2\n");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// What was written between the copy and the cut is lost, as the file says nothing of either. That it was cut is told.
#[test]
fn a_file_that_is_cut_short_is_told() {
    let setup = setup();
    let server = setup.start();
    for round in 1..=2_u64 {
        server.send(0, b"1\n2\n3\n");
        server.wait_delivered(3 * round);
        rotate(&setup, server.pid(), "copytruncate");
        let status =
            server.wait_status("the cut", |status| status["sinks"][0]["truncations"].as_u64() >= Some(round));
        assert_balanced(&status);
    }
    server.wait_log("times that another program truncated the output file");
    let finding = |status: &serde_json::Value| {
        let findings = status["findings"].as_array().cloned().unwrap_or_default();
        findings.iter().any(|finding| finding["name"] == "truncated" && finding["level"] == "notice")
    };
    server.wait_status("a finding", finding);
    assert_eq!(server.health().0, 200);
    assert_eq!(lines(&setup).len(), 6, "nothing was written meanwhile");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
