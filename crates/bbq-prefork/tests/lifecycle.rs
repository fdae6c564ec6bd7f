//! If this fails, peers of a pool that was dropped or stopped hang, a response is cut off by a stop, something stays open, or a
//! worker is given up whose processes would come up a little later.
//!
//! Without the test harness, which has threads.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../bbq-listen/tests/common/mod.rs"]
mod common;
mod pool_tests;
mod without_harness;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use bbq_listen::for_prefork::SharedWords;
use bbq_listen::{FIRST_BYTE_GRACE_DEFAULT, Group};
use bbq_prefork::{Connection, Outcome, PendingResponse, PoolEvent, PreforkPool};
use common::{group, port_of};
use pool_tests::{echo, end, handle_events, turn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Pid, Signal, kill_process};
use without_harness::run;

const DISTRIBUTIONS: [&str; 5] = ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"];
/// An answer takes less than a millisecond; so long only one that never comes.
const LOST: Duration = Duration::from_secs(20);
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// More than the buffers of two sockets hold (net.ipv4.tcp_wmem, tcp_rmem).
const LONG_RESPONSE_BYTES: usize = 32 << 20;

fn main() {
    run(&[
        ("a_dropped_pool_answers_what_waits_and_ends", a_dropped_pool_answers_what_waits_and_ends),
        ("a_stop_closes_what_idles", a_stop_closes_what_idles),
        ("a_stop_answers_first_requests_that_come_late", a_stop_answers_first_requests_that_come_late),
        ("a_stop_waits_for_a_response", a_stop_waits_for_a_response),
        ("a_child_that_hangs_does_not_keep_a_drop", a_child_that_hangs_does_not_keep_a_drop),
        ("a_worker_is_started_until_it_comes_up", a_worker_is_started_until_it_comes_up),
        ("nobody_waits_for_a_worker_without_a_process", nobody_waits_for_a_worker_without_a_process),
    ]);
}

fn a_dropped_pool_answers_what_waits_and_ends() {
    for distribution in DISTRIBUTIONS {
        let group = group("tcp", distribution.parse().unwrap(), 2);
        let before = descriptors();
        let mut pool = PreforkPool::start(&group, |child| child.serve(echo)).unwrap();
        let mut idle = served(&group, &mut pool);
        let pids: Vec<Pid> =
            pool.pids().map(|pid| Pid::from_raw(pid.unwrap().cast_signed()).unwrap()).collect();
        // Stopped, so that everybody waits when the pool is dropped.
        pids.iter().for_each(|pid| signal_and_wait(*pid, Signal::STOP, 'T'));
        let mut waiting: Vec<TcpStream> = (0..20).map(|_| connect(&group)).collect();
        waiting.iter_mut().for_each(|stream| stream.write_all(b"b").unwrap());
        pids.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
        drop(pool);
        assert_eq!(children(), "", "{distribution}");
        for stream in &mut waiting {
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, b"b", "{distribution}");
        }
        assert_eq!(idle.read(&mut [0]).unwrap(), 0, "{distribution}: not closed");
        drop((waiting, idle));
        // With `handoff` the group had an acceptor before, which a pool ends.
        assert!(descriptors() <= before, "{distribution}: something is still open");
    }
}

fn a_stop_closes_what_idles() {
    for distribution in DISTRIBUTIONS {
        let group = group("tcp", distribution.parse().unwrap(), 2);
        let mut pool = PreforkPool::start(&group, |child| child.serve(echo)).unwrap();
        let before = descriptors();
        let mut idle: Vec<TcpStream> = (0..10).map(|_| served(&group, &mut pool)).collect();
        // One of a process that was killed.
        let victim = pool.taken().iter().position(|taken| *taken > 0).unwrap();
        let victim = pool.pids().nth(victim).flatten().unwrap();
        kill_process(Pid::from_raw(victim.cast_signed()).unwrap(), Signal::KILL).unwrap();
        let mut replaced = false;
        while !replaced {
            // A process that was killed before it served has a second event, `StartFailed`.
            turn(&mut pool, |event| replaced |= matches!(event, PoolEvent::Replaced { .. }));
        }
        end(&mut pool);
        for stream in &mut idle {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{distribution}: not closed");
        }
        drop(idle);
        // The children's pidfds are closed, too.
        assert_eq!(descriptors() + 2, before, "{distribution}: something is still open");
    }
}

/// Of clients that are connected, one of which is still queued.
#[expect(clippy::disallowed_methods, reason = "a client that is late is what the test is about")]
fn a_stop_answers_first_requests_that_come_late() {
    for distribution in DISTRIBUTIONS {
        for late in [0, 2, 20, 80].map(Duration::from_millis) {
            let group = group("tcp", distribution.parse().unwrap(), 2);
            let mut pool = PreforkPool::start(&group, |child| child.serve(echo)).unwrap();
            let mut clients: Vec<TcpStream> = (0..10).map(|_| connect(&group)).collect();
            while pool.taken().iter().sum::<u64>() < 10 {
                turn(&mut pool, |event| panic!("{event:?}"));
            }
            clients.push(connect(&group));
            let stopped = Instant::now();
            pool.stop().unwrap();
            std::thread::sleep(late);
            clients.iter_mut().for_each(|client| drop(client.write_all(b"a")));
            let in_time = stopped.elapsed() < FIRST_BYTE_GRACE_DEFAULT;
            end(&mut pool);
            let answered = clients.iter_mut().filter_map(|client| client.read(&mut [0]).ok()).sum::<usize>();
            // A busy machine makes some later than what is promised.
            assert!(answered == 11 || !in_time, "{distribution}, {late:?} late: {answered} of 11");
            println!("{distribution}, {late:?} late: {answered} of 11 were answered");
        }
    }
}

fn a_stop_waits_for_a_response() {
    let group = group("tcp", "shared".parse().unwrap(), 1);
    let mut pool = PreforkPool::start(&group, |child| child.serve(long_response)).unwrap();
    let mut idle = connect(&group);
    let mut reader = connect(&group);
    reader.write_all(b"L").unwrap();
    reader.read_exact(&mut [0]).unwrap();
    pool.stop().unwrap();
    // Closed while the other one is still served.
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len() + 1, LONG_RESPONSE_BYTES);
    end(&mut pool);
}

fn a_child_that_hangs_does_not_keep_a_drop() {
    let group = group("tcp", "shared".parse().unwrap(), 1);
    let mut pool = PreforkPool::start(&group, |child| child.serve(echo)).unwrap();
    let mut idle = served(&group, &mut pool);
    let pid = pool.pids().next().flatten().unwrap();
    signal_and_wait(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::STOP, 'T');
    drop(pool);
    assert_eq!(children(), "");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
}

fn a_worker_is_started_until_it_comes_up() {
    const FAILURES: u64 = 5;
    let starts = SharedWords::new(1).unwrap();
    let group = group("tcp", "shared".parse().unwrap(), 1);
    let mut pool = PreforkPool::start(&group, |child| {
        if starts[0].fetch_add(1, SeqCst) < FAILURES {
            return Err(std::io::ErrorKind::Other.into());
        }
        child.serve(echo)
    })
    .unwrap();
    let mut waiting = connect(&group);
    waiting.write_all(b"a").unwrap();
    let mut delays = Vec::new();
    while (delays.len() as u64) < FAILURES || pool.pids().flatten().next().is_none() {
        turn(&mut pool, |event| match event {
            PoolEvent::StartFailed { retry_in, .. } => delays.push(retry_in),
            PoolEvent::Replaced { .. } => {}
            other => panic!("{other:?}"),
        });
    }
    assert!(delays.len() as u64 == FAILURES && delays.is_sorted(), "{delays:?}");
    waiting.read_exact(&mut [0]).unwrap();
    end(&mut pool);
}

/// Of two workers the first is never served: the other takes its turns.
fn nobody_waits_for_a_worker_without_a_process() {
    for distribution in ["reuseport", "shared", "accept-mutex", "handoff", "handoff=fewest", "duplicate=2"] {
        let group = group("tcp", distribution.parse().unwrap(), 2);
        let mut pool = PreforkPool::start(&group, |child| match child.worker() {
            0 => Err(std::io::ErrorKind::Other.into()),
            _ => child.serve(echo),
        })
        .unwrap();
        let mut has_failed = false;
        while !has_failed {
            turn(&mut pool, |event| has_failed |= matches!(event, PoolEvent::StartFailed { worker: 0, .. }));
        }
        for _ in 0..10 {
            let mut stream = connect(&group);
            stream.write_all(b"a").unwrap();
            // The master hands over.
            let mut served = [PollFd::new(&stream, PollFlags::IN)];
            let start = Instant::now();
            while matches!(poll(&mut served, Some(&NOW)), Ok(0)) {
                assert!(start.elapsed() < LOST, "{distribution}: not served");
                pool.handle_events(|_| {}).unwrap();
            }
            stream.read_exact(&mut [0]).unwrap();
        }
        pool.stop().unwrap();
        while !pool.has_ended() {
            turn(&mut pool, |_| {});
        }
    }
}

/// To an `L`, as many bytes as the peer has to read before they fit.
fn long_response(connection: &Connection<'_>) -> Outcome {
    let unwritten = match connection.unfinished_response().unwrap() {
        Some(unfinished) => unfinished.unwritten_bytes,
        None => match connection.peek(&mut [0]) {
            Ok(peeked) if peeked.unread == 0 => return Outcome::Close,
            Ok(_) => {
                let (output_bytes, stamp) = (LONG_RESPONSE_BYTES, NonZeroU64::MIN);
                let response = PendingResponse { input_bytes: 1, output_bytes, stamp, mark: 0 };
                connection.begin_response(&response, b"").unwrap();
                output_bytes
            }
            Err(_) => return Outcome::AwaitInput,
        },
    };
    let response = vec![b'x'; unwritten];
    let mut written = 0;
    while written < unwritten {
        match send(connection, &response[written..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(length) => written += length,
            Err(Errno::AGAIN) => return Outcome::AwaitRoom,
            Err(_) => return Outcome::Close,
        }
    }
    recv(connection, &mut [0], RecvFlags::DONTWAIT).unwrap();
    connection.end_response();
    Outcome::AwaitInput
}

/// A connection that was answered once.
fn served(group: &Group, pool: &mut PreforkPool<'_>) -> TcpStream {
    let mut stream = connect(group);
    stream.write_all(b"a").unwrap();
    // With `handoff` the master has to accept it.
    while matches!(poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&NOW)), Ok(0)) {
        handle_events(pool, |event| panic!("{event:?}"));
    }
    stream.read_exact(&mut [0]).unwrap();
    stream
}

fn connect(group: &Group) -> TcpStream {
    let stream = TcpStream::connect(port_of(group)).unwrap();
    stream.set_read_timeout(Some(LOST)).unwrap();
    stream
}

/// Returns when the process is in this state (proc(5)).
fn signal_and_wait(pid: Pid, signal: Signal, state: char) {
    kill_process(pid, signal).unwrap();
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(state)) {
            return;
        }
        std::thread::yield_now();
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> String {
    let pid = std::process::id();
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}
