//! If this fails, a stop, a reload or an upgrade makes the server read lines twice, or leave lines out.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;

use crate::files::{Log, assert_each_once, logs, setup};
use crate::support::Setup;
use crate::support::lineage::Lineage;

#[test]
fn a_stop_and_a_start_go_on_where_the_files_were() {
    let setup = setup();
    let mut log = Log::create(&logs(&setup), "app");
    for _ in 0..3 {
        let server = setup.start();
        log.write(1000);
        server.wait_status("some lines", |status| status["readers"][0]["received"].as_u64() > Some(0));
        log.write(1000);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        log.write(10);
        log.rotate();
        log.write(10);
    }
    let server = setup.start();
    server.wait_delivered(log.lines);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_each_once(&setup, &[&log]);
}

/// The configuration with readers of these names, each of a directory of its name.
fn write(setup: &Setup, readers: &[&str]) {
    let reader = |name: &&str| {
        format!("[[read]]\nspec = \"file:{}/{name}/*.log*\"\nname = \"{name}\"\n", setup.path().display())
    };
    let readers: String = readers.iter().map(reader).collect();
    fs::write(setup.path().join("bbq.toml"), format!("drain_timeout_seconds = 20\n{readers}"))
        .expect("a file");
}

#[test]
fn readers_come_and_go_by_a_reload_and_the_others_read_on() {
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--config", "{dir}/bbq.toml", "--workers", "2"]);
    write(&setup, &["one"]);
    let mut one = Log::create(&setup.path().join("one"), "one");
    let mut two = Log::create(&setup.path().join("two"), "two");
    let server = Lineage::start(&setup);
    one.write(500);
    two.write(500);
    write(&setup, &["two", "one"]);
    server.reload();
    one.write(500);
    two.write(500);
    let status = server.wait_delivered(one.lines + two.lines);
    assert_eq!(status["readers"][0]["name"], "two", "{status:#}");
    assert_eq!(status["readers"][0]["received"], two.lines, "{status:#}");
    assert_eq!(status["readers"][1]["received"], one.lines, "{status:#}");
    write(&setup, &["one"]);
    server.reload();
    one.write(500);
    let while_away = one.lines + two.lines;
    two.write(500);
    let status = server.wait_delivered(while_away);
    assert_eq!(status["readers"].as_array().map(Vec::len), Some(1), "{status:#}");
    // It comes back, and goes on where it was.
    write(&setup, &["one", "two"]);
    server.reload();
    server.wait_delivered(one.lines + two.lines);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_each_once(&setup, &[&one, &two]);
}

#[test]
fn an_upgrade_in_the_middle_of_a_file_goes_on_at_its_byte() {
    let setup = setup().with(&["--workers", "2"]);
    let mut log = Log::create(&logs(&setup), "app");
    let mut server = Lineage::start(&setup);
    for _ in 0..3 {
        log.write(5000);
        server.upgrade();
        log.write(1000);
        log.rotate();
    }
    server.wait_delivered(log.lines);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_each_once(&setup, &[&log]);
}

#[test]
fn more_and_fewer_workers_keep_each_line() {
    let setup = setup();
    let mut logs: Vec<Log> = (0..8).map(|index| Log::create(&logs(&setup), &format!("app{index}"))).collect();
    for workers in [1, 4, 2, 3] {
        let server = setup.start_with_workers(workers);
        for log in &mut logs {
            log.write(300);
        }
        let total: u64 = logs.iter().map(|log| log.lines).sum();
        server.wait_delivered(total);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
    assert_each_once(&setup, &logs.iter().collect::<Vec<_>>());
}
