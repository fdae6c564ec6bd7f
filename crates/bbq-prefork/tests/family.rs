//! If this fails, a connection that kills every process which meets it brings a family down, or an idle one is lost with them;
//! a seat whose processes do not come up is started for ever; or children are cloned from a process that has threads.
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
use bbq_prefork::{Connection, Family, FamilyEvent, Turn};
use common::{group, port_of};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

fn main() {
    what_kills_is_closed_and_the_rest_goes_on();
    a_seat_whose_processes_do_not_come_up_is_given_up();
    threads_and_datagrams_are_refused();
    println!("family: ok");
}

fn what_kills_is_closed_and_the_rest_goes_on() {
    let group = group("tcp", Distribution::Shared, 1);
    let mut family = Family::start(&group, |member| member.serve(echo)).unwrap();
    let mut idle = TcpStream::connect(port_of(&group)).unwrap();
    idle.write_all(b"a").unwrap();
    idle.read_exact(&mut [0]).unwrap();
    let mut deadly = TcpStream::connect(port_of(&group)).unwrap();
    deadly.write_all(b"!").unwrap();
    let (mut deaths, mut refused, mut inherited) = (0, 0, 0);
    while refused == 0 {
        turn(&mut family, |event| match event {
            FamilyEvent::Replaced { inherited: more, refused: closed, .. } => {
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
    end(&mut family);
    assert_eq!(family.taken(), [2]);
}

fn a_seat_whose_processes_do_not_come_up_is_given_up() {
    let group = group("tcp", Distribution::Shared, 1);
    let mut family = Family::start(&group, |_| Err(io::ErrorKind::Other.into())).unwrap();
    let (replaced, given_up) = (Cell::new(0), Cell::new(false));
    while !given_up.get() {
        turn(&mut family, |event| match event {
            FamilyEvent::Replaced { .. } => replaced.set(replaced.get() + 1),
            FamilyEvent::GivenUp { .. } => given_up.set(true),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(replaced.get(), 2);
    assert!(family.has_ended());
}

fn threads_and_datagrams_are_refused() {
    let datagrams = group("udp", Distribution::Shared, 1);
    let refused = Family::start(&datagrams, |member| member.serve(echo)).unwrap_err();
    assert!(refused.to_string().contains("datagrams"), "{refused}");
    let group = group("tcp", Distribution::Shared, 1);
    let (end, ended) = mpsc::sync_channel::<()>(0);
    std::thread::scope(|threads| {
        threads.spawn(move || ended.recv().unwrap_err());
        let refused = Family::start(&group, |member| member.serve(echo)).unwrap_err();
        assert!(refused.to_string().contains("threads"), "{refused}");
        drop(end);
    });
}

/// Answers each byte with itself, and dies of an exclamation mark.
fn echo(connection: &Connection<'_>) -> Turn {
    let mut byte = [0];
    match recv(connection, &mut byte, RecvFlags::PEEK) {
        Ok((0, _)) => Turn::Close,
        Ok(_) if byte == *b"!" => std::process::abort(),
        Ok(_) => {
            recv(connection, &mut byte, RecvFlags::empty()).unwrap();
            send(connection, &byte, SendFlags::empty()).unwrap();
            Turn::Again
        }
        Err(_) => Turn::Read,
    }
}

fn turn(family: &mut Family<'_>, f: impl FnMut(FamilyEvent)) {
    let _interrupted =
        poll(&mut [PollFd::from_borrowed_fd(std::os::fd::AsFd::as_fd(family), PollFlags::IN)], None);
    family.turn(f).unwrap();
}

fn end(family: &mut Family<'_>) {
    family.stop().unwrap();
    while !family.has_ended() {
        turn(family, |event| assert!(matches!(event, FamilyEvent::Ended { .. }), "{event:?}"));
    }
}
