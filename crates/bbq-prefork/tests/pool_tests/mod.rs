//! What tests of a pool in their own process share: a server that echoes, and events of the pool.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::AsFd;

use bbq_prefork::{Connection, Outcome, PoolEvent, PreforkPool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Answers each byte with itself, and dies of an exclamation mark.
pub(crate) fn echo(connection: &Connection<'_>) -> Outcome {
    let mut byte = [0];
    match recv(connection, &mut byte, RecvFlags::PEEK) {
        Ok((0, _)) => Outcome::Close,
        Ok(_) if byte == *b"!" => std::process::abort(),
        Ok(_) => {
            recv(connection, &mut byte, RecvFlags::empty()).unwrap();
            send(connection, &byte, SendFlags::empty()).unwrap();
            Outcome::Yield
        }
        Err(_) => Outcome::AwaitInput,
    }
}

/// The longest delay of a pool is a second: so long only an event that never comes takes.
const LOST: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Waits for events of the pool, and handles them.
pub(crate) fn turn(pool: &mut PreforkPool<'_>, f: impl FnMut(PoolEvent)) {
    let ready = poll(&mut [PollFd::from_borrowed_fd(pool.as_fd(), PollFlags::IN)], Some(&LOST));
    assert_ne!(ready, Ok(0), "no event for {} s", LOST.tv_sec);
    handle_events(pool, f);
}

/// Handles events of the pool, except those of children that a busy machine did not schedule for a while.
pub(crate) fn handle_events(pool: &mut PreforkPool<'_>, mut f: impl FnMut(PoolEvent)) {
    let stalls = |event: &PoolEvent| {
        use PoolEvent::{Blocked, Recovered, Stopped};
        matches!(event, Blocked { .. } | Stopped { .. } | Recovered { .. })
    };
    pool.handle_events(|event| {
        if !stalls(&event) {
            f(event)
        }
    })
    .unwrap();
}

/// Stops the pool, and waits for its end.
pub(crate) fn end(pool: &mut PreforkPool<'_>) {
    pool.stop().unwrap();
    while !pool.has_ended() {
        turn(pool, |event| assert!(matches!(event, PoolEvent::Ended { .. }), "{event:?}"));
    }
}
