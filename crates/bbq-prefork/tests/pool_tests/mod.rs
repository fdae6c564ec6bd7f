//! What tests of a pool in their own process share: no test harness, as that has threads; and a server that echoes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::AsFd;

use bbq_prefork::{Connection, Outcome, PoolEvent, PreforkPool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Runs the tests whose names contain the first argument, if there is one, one after the other. It prints what the standard
/// harness prints, for whoever counts tests.
pub(crate) fn run(tests: &[(&str, fn())]) {
    let wanted = std::env::args().nth(1).filter(|word| !word.starts_with('-')).unwrap_or_default();
    let tests: Vec<_> = tests.iter().filter(|(name, _)| name.contains(&wanted)).collect();
    println!("running {} tests", tests.len());
    for (name, test) in &tests {
        test();
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", tests.len());
}

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
    pool.handle_events(f).unwrap();
}

/// Stops the pool, and waits for its end.
pub(crate) fn end(pool: &mut PreforkPool<'_>) {
    pool.stop().unwrap();
    while !pool.has_ended() {
        turn(pool, |event| assert!(matches!(event, PoolEvent::Ended { .. }), "{event:?}"));
    }
}
