//! If this fails, one read error of the disk costs messages that another try would have read.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use crate::support::session::{Session, batch, stream_id};
use crate::support::{Setup, assert_balanced};

const BATCHES: u64 = 120;
const PER_BATCH: u64 = 10;
const MESSAGES: u64 = BATCHES * PER_BATCH;

/// A spool of several segments with all messages in it.
fn spool() -> Setup {
    let config = "workers = 1\nsink = []\n[spool]\nsegment_bytes = \"64KiB\"\n";
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config(config);
    setup.set_sinks(&[]);
    let server = setup.start();
    let (mut session, _) = Session::open(setup.address(0), stream_id(1));
    for first in (1..=MESSAGES).step_by(PER_BATCH as usize) {
        let messages: Vec<String> =
            (first..first + PER_BATCH).map(|number| format!("message {number:06} {:x<480}", "")).collect();
        session.write(&batch(stream_id(1), first, &messages));
        session.acknowledged(first + PER_BATCH - 1);
    }
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    setup.set_sinks(&["file:{dir}/out.log"]);
    setup
}

#[test]
fn whichever_read_fails_every_message_is_delivered() {
    // Recovery, the table of streams and the sink read the segments in turn; each thread's reads are counted apart.
    for nth in [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20] {
        let setup = spool();
        let inject = format!("inject=pread64:error=EIO:when={nth}");
        let mut strace =
            vec!["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pread64", "-e", &inject];
        let segments = segments(&setup);
        strace.extend(segments.iter().flat_map(|path| ["-P", path.as_str()]));
        let setup = setup.prefix(&strace);
        let server = setup.start();
        let status = server.wait_status("the end of the spool", |status| status["ledger"]["queued"] == 0);
        assert_eq!(status["ledger"]["delivered"], MESSAGES, "read {nth}: {status:#}\n{}", setup.log());
        assert_balanced(&status);
        assert_eq!(status["spool"]["quarantined"], 0, "read {nth}: {status:#}");
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
}

fn segments(setup: &Setup) -> Vec<String> {
    let entries = std::fs::read_dir(setup.data().join("spool/lane-0")).expect("a lane");
    let paths = entries.map(|entry| entry.expect("an entry").path().to_string_lossy().into_owned());
    let segments: Vec<String> = paths.collect();
    assert!(segments.len() > 5, "{segments:?}");
    segments
}
