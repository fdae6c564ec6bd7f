//! If this fails, a child that was forked while another thread was sending hangs in a method of its parent's Rust sender.

#![expect(unsafe_code, reason = "fork is")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bbq_client::{OnFull, SendError, Sender};

const FORKS: usize = 300;
const THREADS: usize = 3;
/// Only a child that hangs takes this long.
const HANGS_SECONDS: u32 = 20;
/// More records than fit into a block that was open at the fork.
const TRIES: usize = 100_000;

/// Calls the methods of the parent's sender in a child. Returns the number of the first step that failed, or 0.
fn child(sender: &Sender) -> i32 {
    let forked = |outcome: Result<(), SendError>| matches!(outcome, Err(SendError::Forked));
    if !(0..TRIES).any(|_| forked(sender.send(b"child"))) {
        return 1;
    }
    if !(0..TRIES).any(|_| forked(sender.try_send(b"child"))) {
        return 2;
    }
    if !forked(sender.flush(Duration::MAX)) || !forked(sender.close(Duration::MAX).map(drop)) {
        return 3;
    }
    if sender.counters().accepted > 0 || !sender.servers().is_empty() || sender.last_sequence() > 0 {
        return 4;
    }
    i32::from(sender.set_reconnect(sender.reconnect()).is_err()) * 5
}

fn fork_while_others_send(sender: &Sender) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    // No server takes the records.
                    let _full = sender.send(&[b'p'; 100]);
                    let _counters = sender.counters();
                }
            });
        }
        let mut wrong = Vec::new();
        for fork in 0..FORKS {
            // SAFETY: the child calls the methods under test, and then ends without the parent's exit handlers.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: as above.
                unsafe {
                    libc::alarm(HANGS_SECONDS);
                    libc::_exit(child(sender));
                }
            }
            let mut status = 0;
            // SAFETY: the child is this process's, and `status` is there.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            if status != 0 {
                wrong.push((fork, status));
                break;
            }
        }
        ended.store(true, Ordering::Relaxed);
        assert!(wrong.is_empty(), "fork, status: {wrong:?}");
    });
}

#[test]
fn no_method_waits_for_who_is_in_the_parent() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = || {
        Sender::builder()
            .server("bbq://127.0.0.1:1".parse().expect("an address"))
            .queue_bytes_max(1 << 20)
            .on_full(OnFull::DropOldest)
            .close_timeout(Duration::ZERO)
    };
    fork_while_others_send(&builder().start().expect("it starts"));
    let spooled = builder().spool(directory.path().join("spool")).on_full(OnFull::DropNewest);
    fork_while_others_send(&spooled.spool_bytes_max(64 << 20).start().expect("it starts"));
}
