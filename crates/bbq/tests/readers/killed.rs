//! If this fails, a kill makes the server read lines twice, or leave lines out.

use std::fs;

use crate::files::{Log, assert_each_once, logs, setup};

const KILLS: u64 = 10;
const FILES: usize = 4;
const LINES: u64 = 3000;

#[test]
fn each_line_comes_once_and_in_order_over_ten_kills_and_rotations() {
    let setup = setup();
    let names: Vec<String> = (0..FILES).map(|index| format!("app{index}")).collect();
    let mut written: Vec<Log> = names.iter().map(|name| Log::create(&logs(&setup), name)).collect();
    for kill in 0..KILLS {
        let server = setup.start();
        let before = server.status()["readers"][0]["received"].as_u64().unwrap();
        for (index, log) in written.iter_mut().enumerate() {
            log.write(LINES);
            if (kill as usize + index).is_multiple_of(2) {
                log.rotate();
                log.write(LINES / 2);
            }
        }
        // In the middle: some of it is stored, some is delivered, and some is neither.
        server.wait_status("some lines", |status| {
            status["readers"][0]["received"].as_u64().unwrap() > before + kill * LINES / KILLS
        });
        server.kill();
        // Nobody reads now.
        for log in &mut written {
            log.write(10);
        }
    }
    let server = setup.start();
    let total: u64 = written.iter().map(|log| log.lines).sum();
    let status = server.wait_delivered(total);
    assert_eq!(status["readers"][0]["received"], total, "{status:#}");
    server.wait_status("nothing behind", |status| status["readers"][0]["behind_bytes"] == 0);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_each_once(&setup, &written.iter().collect::<Vec<_>>());
    assert_in_order(&fs::read_to_string(setup.output()).unwrap());
}

/// Of each log, the numbers rise within a file: they fall at most once for each rotation, to where the new file begins.
fn assert_in_order(written: &str) {
    for index in 0..FILES {
        let prefix = format!("app{index} ");
        let numbers = written
            .lines()
            .filter_map(|line| line.strip_prefix(&prefix)?.split(' ').next()?.parse::<u64>().ok());
        let numbers: Vec<u64> = numbers.collect();
        let falls = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        assert!(falls <= KILLS, "app{index} went back {falls} times");
    }
}
