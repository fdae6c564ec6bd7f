//! If this fails, a stop drops messages that were received, although the disk has room for them and is only slow.

use crate::support::{Setup, assert_balanced};

const CONFIG: &str = "workers = 1\n[spool]\nsegment_bytes = \"64KiB\"\nflush_interval_ms = 0\n";
/// Several times what a lane with segments of 64 KiB holds in memory.
const LINES: u64 = 1000;
const LISTENERS: usize = 6;

#[test]
fn what_was_received_is_written_at_a_stop_while_the_disk_syncs() {
    // Each sync takes a twentieth of a second: at the stop one is under way, and the lane's buffer is full behind it.
    let slow = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e"];
    let slow = [&slow[..], &["inject=fdatasync:delay_enter=50000"]].concat();
    // A batch for each listener, and none fits beside another.
    let listeners: Vec<String> =
        (0..LISTENERS).map(|index| format!("lines+tcp://127.0.0.1:{{{index}}}")).collect();
    let listeners: Vec<&str> = listeners.iter().map(String::as_str).collect();
    let setup = Setup::new(&listeners).config(CONFIG).prefix(&slow);
    let server = setup.start();
    let lines: String = (0..LINES).map(|number| format!("line {number:06} {:x<100}\n", "")).collect();
    std::thread::scope(|scope| {
        for index in 0..LISTENERS {
            let (server, lines) = (&server, &lines);
            scope.spawn(move || server.send(index, lines.as_bytes()));
        }
    });
    server.wait_status("the first lines", |status| status["ledger"]["received"].as_u64() > Some(0));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let server = setup.start();
    let status = server.wait_status("the rest", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(status["ledger"]["dropped"], serde_json::json!({}), "{status:#}\n{}", setup.log());
    assert_eq!(setup.written().len(), lines.len() * LISTENERS, "{}", setup.log());
}
