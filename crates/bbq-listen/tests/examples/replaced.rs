//! If this fails, requests are lost when a server is replaced by a successor that takes its sockets: those that were queued, or whose
//! connection the old process had accepted already.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bbq_listen::FIRST_BYTE_GRACE_DEFAULT;
use tempfile::TempDir;

use crate::example::{ANSWER_TIMEOUT, Example, command};
use crate::hand_over::{EndsClients, exchange};
use crate::late::{HTTP, LATE_MS};

const HAND_OVERS: usize = 20;
/// Two for each of the times.
const CLIENTS: usize = 8;
/// Requests between two hand-overs.
const REQUESTS: usize = 40;

#[test]
fn no_request_is_lost_over_twenty_restarts() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("hand-over");
    let mut serving = start(&path);
    wait_for(&path);
    let to = serving.address;
    let (ends, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (tell, told) = mpsc::sync_channel(REQUESTS);
    let ask = |late: Duration| {
        let (client, mut lost) = (exchange(HTTP), 0);
        while !ends.load(Relaxed) {
            let (waited, is_answered) = client(to, late);
            // A busy machine makes some clients later than what is promised.
            lost += usize::from(!is_answered && waited < FIRST_BYTE_GRACE_DEFAULT);
            requests.fetch_add(1, Relaxed);
            // While a server is replaced, nobody counts.
            let _ = tell.try_send(());
        }
        (late, lost)
    };
    let lost: Vec<(Duration, usize)> = thread::scope(|threads| {
        // Also when an assertion fails.
        let _ends = EndsClients(&ends);
        let ask = &ask;
        let late = LATE_MS.iter().cycle().take(CLIENTS).map(|late| Duration::from_millis(*late));
        let clients: Vec<_> = late.map(|late| threads.spawn(move || ask(late))).collect();
        for _ in 0..HAND_OVERS {
            let old = std::mem::replace(&mut serving, start(&path));
            assert_eq!(serving.address, to);
            // Nobody tells it to.
            assert!(old.wait().success);
            (0..REQUESTS).for_each(|_| told.recv_timeout(ANSWER_TIMEOUT).unwrap());
        }
        ends.store(true, Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    println!("{lost:?} lost of {requests:?} requests over {HAND_OVERS} hand-overs");
    assert!(lost.iter().all(|(_, lost)| *lost == 0), "{lost:?} of {requests:?} requests");
    assert!(serving.terminate().success);
}

fn start(path: &Path) -> Example {
    Example::spawn(command("hand_over").arg("127.0.0.1:0").arg(path))
}

/// The first server says that it listens before it can be replaced.
fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < ANSWER_TIMEOUT, "it cannot be replaced");
        thread::yield_now();
    }
}
