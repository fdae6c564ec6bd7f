//! A connection whose messages each fill a batch is read again as soon as the lane has taken the batch. If this fails, the connection
//! waits for `spool.flush_interval_ms` after each message.

use crate::support::Setup;

#[test]
fn large_lines_do_not_wait_for_the_flush_interval() {
    const LINES: usize = 8;
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--config", "{dir}/bbq.toml", "--workers", "1"]);
    let config = setup.path().join("bbq.toml");
    // The maximum: eight intervals are longer than the test waits.
    std::fs::write(&config, "[spool]\nflush_interval_ms = 10000\n").unwrap();
    let server = setup.start();
    let line = [vec![b'x'; 300 * 1024], vec![b'\n']].concat();
    server.send(0, &line.repeat(LINES));
    server.wait_status("all lines", |status| status["ledger"]["received"] == LINES);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written().len(), LINES * line.len());
}
