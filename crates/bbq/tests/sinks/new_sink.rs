//! If this fails, a sink that is added to a server with old messages repeats, loses or miscounts some. It must get what the spool
//! still has; the rest counts as dropped for this sink alone, by the reason `before-sink`.

use crate::support::{Setup, assert_balanced};

#[test]
fn a_new_sink_gets_what_is_kept_and_its_ledger_balances() {
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}"]).with(&["--config", "{dir}/bbq.toml", "--workers", "1"]);
    let config = setup.path().join("bbq.toml");
    std::fs::write(&config, "[spool]\nsegment_bytes = \"64KiB\"\nbytes_max = \"4MiB\"\n").unwrap();
    let server = setup.start();
    let mut sent = 0;
    // One segment at a time, each delivered before the next, so that segments are passed and deleted.
    for _ in 0..8 {
        let lines: String = (0..1000).map(|line| format!("{:070}\n", sent + line)).collect();
        server.send(0, lines.as_bytes());
        sent += 1000;
        server.wait_delivered(sent);
    }
    // Of nine segments, which a thread deletes when it comes to it.
    server.wait_status("few segments", |status| status["spool"]["segments"].as_u64() < Some(6));
    assert_eq!(server.stop(), Some(0));
    let setup = setup.with(&["--sink", "file:{dir}/second.log"]);
    let server = setup.start();
    server.send(0, b"new\n");
    let status = server.wait_delivered_by(1, sent + 1);
    assert_balanced(&status);
    let second = &status["sinks"][1];
    let before = second["dropped"]["before-sink"].as_u64().unwrap();
    assert!(before >= 1000 && before < sent, "{second:#}");
    let written = std::fs::read_to_string(setup.path().join("second.log")).unwrap();
    let expected: Vec<String> =
        (before..sent).map(|line| format!("{line:070}")).chain(["new".to_owned()]).collect();
    assert_eq!(written.lines().collect::<Vec<_>>(), expected);
    assert_eq!(server.stop(), Some(0));
}
