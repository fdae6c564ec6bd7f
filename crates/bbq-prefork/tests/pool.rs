//! If this fails, a connection that kills every process which meets it brings a pool down, or an idle one is lost with them;
//! a worker whose processes do not come up is started for ever; or children are cloned from a process that has threads.
//!
//! Without the test harness, which has threads.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../bbq-listen/tests/common/mod.rs"]
mod common;

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use bbq_listen::Distribution;
use bbq_prefork::{Connection, Outcome, PoolEvent, PreforkPool};
use common::{group, port_of};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

const TESTS: [(&str, fn()); 3] = [
    ("what_kills_is_closed_and_the_rest_goes_on", what_kills_is_closed_and_the_rest_goes_on),
    (
        "a_worker_whose_processes_do_not_come_up_is_given_up",
        a_worker_whose_processes_do_not_come_up_is_given_up,
    ),
    ("threads_and_datagrams_are_refused", threads_and_datagrams_are_refused),
];

fn main() {
    // As the standard harness prints it, for whoever counts tests.
    println!("running {} tests", TESTS.len());
    for (name, test) in TESTS {
        test();
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", TESTS.len());
}

fn what_kills_is_closed_and_the_rest_goes_on() {
    let group = group("tcp", Distribution::Shared, 1);
    let mut pool = PreforkPool::start(&group, |child| child.serve(echo)).unwrap();
    let mut idle = TcpStream::connect(port_of(&group)).unwrap();
    idle.write_all(b"a").unwrap();
    idle.read_exact(&mut [0]).unwrap();
    let mut deadly = TcpStream::connect(port_of(&group)).unwrap();
    deadly.write_all(b"!").unwrap();
    let (mut deaths, mut refused, mut inherited) = (0, 0, 0);
    while refused == 0 {
        turn(&mut pool, |event| match event {
            PoolEvent::Replaced { inherited: more, refused: closed, .. } => {
                (deaths, refused, inherited) = (deaths + 1, closed, more);
            }
            other => panic!("{other:?}"),
        });
    }
    assert_eq!((deaths, refused, inherited), (3, 1, 1));
    // Closed with what it sent unread.
    assert_eq!(deadly.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    idle.write_all(b"b").unwrap();
    let mut answer = [0];
    idle.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"b");
    end(&mut pool);
    assert_eq!(pool.taken(), [2]);
}

fn a_worker_whose_processes_do_not_come_up_is_given_up() {
    let group = group("tcp", Distribution::Shared, 1);
    let mut pool = PreforkPool::start(&group, |_| Err(io::ErrorKind::Other.into())).unwrap();
    let (replaced, given_up) = (Cell::new(0), Cell::new(false));
    while !given_up.get() {
        turn(&mut pool, |event| match event {
            PoolEvent::Replaced { .. } => replaced.set(replaced.get() + 1),
            PoolEvent::GivenUp { .. } => given_up.set(true),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(replaced.get(), 2);
    assert!(pool.has_ended());
}

fn threads_and_datagrams_are_refused() {
    let datagrams = group("udp", Distribution::Shared, 1);
    let refused = PreforkPool::start(&datagrams, |child| child.serve(echo)).unwrap_err();
    assert!(refused.to_string().contains("datagrams"), "{refused}");
    let group = group("tcp", Distribution::Shared, 1);
    let (end, ended) = mpsc::sync_channel::<()>(0);
    std::thread::scope(|threads| {
        threads.spawn(move || ended.recv().unwrap_err());
        let refused = PreforkPool::start(&group, |child| child.serve(echo)).unwrap_err();
        assert!(refused.to_string().contains("threads"), "{refused}");
        drop(end);
    });
}

/// Answers each byte with itself, and dies of an exclamation mark.
fn echo(connection: &Connection<'_>) -> Outcome {
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

fn turn(pool: &mut PreforkPool<'_>, f: impl FnMut(PoolEvent)) {
    let _interrupted =
        poll(&mut [PollFd::from_borrowed_fd(std::os::fd::AsFd::as_fd(pool), PollFlags::IN)], None);
    pool.handle_events(f).unwrap();
}

fn end(pool: &mut PreforkPool<'_>) {
    pool.stop().unwrap();
    while !pool.has_ended() {
        turn(pool, |event| assert!(matches!(event, PoolEvent::Ended { .. }), "{event:?}"));
    }
}
