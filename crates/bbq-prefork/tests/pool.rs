//! If this fails, a connection that kills every process which meets it brings a pool down, or an idle one is lost with them;
//! a worker whose processes do not come up is started for ever; or children are cloned from a process that has threads.
//!
//! Without the test harness, which has threads.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../bbq-listen/tests/common/mod.rs"]
mod common;
mod pool_tests;
mod without_harness;

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use bbq_listen::Distribution;
use bbq_prefork::{PoolEvent, PreforkPool};
use common::{group, port_of};
use pool_tests::{echo, end, turn};
use without_harness::run;

fn main() {
    run(&[
        ("what_kills_is_closed_and_the_rest_goes_on", what_kills_is_closed_and_the_rest_goes_on),
        (
            "a_worker_whose_processes_do_not_come_up_is_given_up",
            a_worker_whose_processes_do_not_come_up_is_given_up,
        ),
        ("threads_and_datagrams_are_refused", threads_and_datagrams_are_refused),
    ]);
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
    let (failed, given_up) = (Cell::new(0), Cell::new(false));
    while !given_up.get() {
        turn(&mut pool, |event| match event {
            PoolEvent::Replaced { .. } => {}
            PoolEvent::StartFailed { .. } => failed.set(failed.get() + 1),
            PoolEvent::GivenUp { .. } => given_up.set(true),
            other => panic!("{other:?}"),
        });
    }
    // Ten starts take a few seconds.
    assert_eq!(failed.get(), 9);
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
