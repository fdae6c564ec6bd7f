//! If this fails, somebody who looks on costs a sink messages, keeps the disk full, or makes the server take its own files for damaged.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;

use serde_json::Value;

use super::tail::Tail;
use crate::support::flood::{self, MESSAGES, assert_all_once};
use crate::support::{Setup, assert_balanced};

/// Floods, one after the other: enough for the segments to be written again many times.
const FLOODS: u64 = 4;

/// A viewer that asks for everything and reads nothing.
fn silent_viewer(setup: &Setup, query: &str) -> TcpStream {
    let mut stream = TcpStream::connect(setup.admin()).expect("it listens");
    let request = format!("GET /tail?{query} HTTP/1.1\r\nHost: {}\r\n\r\n", setup.admin());
    stream.write_all(request.as_bytes()).expect("it reads");
    stream
}

#[test]
fn sinks_get_everything_and_viewers_a_sample() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"])
        .config("spool.segment_bytes = \"1MiB\"\nspool.bytes_max = \"64MiB\"\n")
        .with(&["--workers", "2"]);
    let server = setup.start();
    let live = Tail::start(&setup, &["--json"]);
    let behind = Tail::start(&setup, &["--json", "--from", "beginning", "--grep", "0000[13579]000"]);
    let _silent: Vec<TcpStream> =
        ["", "from=beginning", "grep=x{50}y"].iter().map(|query| silent_viewer(&setup, query)).collect();
    for round in 0..FLOODS {
        let sent = AtomicU64::new(0);
        let kind = format!("flood{round}");
        std::thread::scope(|scope| {
            let _ends_it = server.killed_if_this_fails();
            scope.spawn(|| flood::lines(setup.address(0), &kind, &sent));
        });
    }
    let status = server.wait_delivered(FLOODS * MESSAGES);
    let written = setup.written();
    for round in 0..FLOODS {
        assert_all_once(&written, &format!("flood{round}"));
    }
    assert_balanced(&status);
    // A lane keeps its newest segment, and spares. The viewers keep none.
    let segments =
        server.wait_status("few segments", |status| status["spool"]["segments"].as_u64() <= Some(8));
    assert_eq!(segments["spool"]["quarantined"], 0, "{}", setup.log());
    assert!(!setup.log().contains("damaged"), "{}", setup.log());
    // A sample of whole messages, and how many are missing in it.
    let first = live.line();
    let shown: Vec<Value> = std::iter::once(first)
        .chain(live.rest())
        .map(|line| serde_json::from_str(&line).expect("JSON"))
        .collect();
    for line in &shown {
        let message = line["message"].as_str().expect("text").trim_end_matches('\n');
        let mut words = message.split(' ');
        let (kind, number) = (words.next().expect("a kind"), words.next().expect("a number"));
        assert_eq!(message, flood::message(kind, number.parse().expect("a number")));
    }
    let warnings = live.warnings().concat();
    assert!(warnings.contains("messages were skipped"), "{} shown, {warnings}", shown.len());
    drop(behind);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
