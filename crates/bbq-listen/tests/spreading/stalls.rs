//! If this fails, connections or datagrams wait for a worker that does not come around, although others are free.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use bbq_listen::{
    AsyncDatagrams, STALL_THRESHOLD_DEFAULT, StallEvent, StallMonitor, WorkerListener, install_heartbeat,
};

use crate::common;
use crate::serving::{BLOCKED, LOST, Serving, answer, ask};

const WORKERS: usize = 4;
const CONNECTIONS: usize = 400;
/// The bound, against a block of two seconds: nobody waits for the blocked worker.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Of this many waits, so few may be longer for reasons of a busy machine, which are all far shorter than the block.
const LATE_MAX: usize = CONNECTIONS / 50;

/// Blocks a worker while connections arrive; answers how long each waited, sorted.
fn waits(word: &str, watched: bool) -> Vec<Duration> {
    let group = common::group("tcp", word.parse().unwrap(), WORKERS);
    let (tell, events) = mpsc::sync_channel(16);
    let monitor = watched.then(|| {
        let tell = move |event| drop(tell.try_send(event));
        StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, tell).unwrap()
    });
    let serving = Serving::start(&group);
    let to = common::port_of(&group);
    ask(to);
    serving.block(1);
    let mut waits = connect_all(to);
    waits.sort_unstable();
    // Elsewhere nothing may be waiting for it, and then there is nothing to do.
    if watched && word == "reuseport" {
        let event = events.recv_timeout(LOST).unwrap();
        assert!(matches!(event, StallEvent::Stalled { worker: 1, .. }), "{event:?}");
        let event = events.recv_timeout(LOST).unwrap();
        assert!(matches!(event, StallEvent::Recovered { worker: 1, .. }), "{event:?}");
    }
    drop(monitor);
    assert_eq!(serving.stop().iter().sum::<u64>(), CONNECTIONS as u64 + 1);
    println!(
        "{word}, watched {watched}: median {:?}, longest {:?}",
        waits[CONNECTIONS / 2],
        waits[CONNECTIONS - 1]
    );
    waits
}

/// All at once from several threads: so many that every queue has some when its worker is blocked.
fn connect_all(to: SocketAddr) -> Vec<Duration> {
    std::thread::scope(|threads| {
        let ask_some = move || (0..CONNECTIONS / 8).map(|_| ask(to).1).collect::<Vec<_>>();
        let clients: Vec<_> = (0..8).map(|_| threads.spawn(ask_some)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

fn assert_nobody_waits_for_the_blocked(word: &str) {
    let waits = waits(word, true);
    assert!(waits[CONNECTIONS - 1] < BLOCKED / 2, "{word}: somebody waited {:?}", waits[CONNECTIONS - 1]);
    let late = waits.iter().filter(|wait| **wait > WAIT_MAX).count();
    assert!(late <= LATE_MAX, "{word}: {late} of {CONNECTIONS} waited more than {WAIT_MAX:?}");
}

#[test]
fn connections_do_not_wait_for_a_blocked_worker() {
    for word in ["reuseport", "shared", "accept-mutex", "handoff", "duplicate=2"] {
        assert_nobody_waits_for_the_blocked(word);
    }
}

/// Nobody watches: the workers themselves pass the socket on.
#[test]
fn a_shared_socket_is_not_left_with_a_worker_that_has_other_work() {
    for word in ["shared", "duplicate=2"] {
        let group = common::group("tcp", word.parse().unwrap(), WORKERS);
        let mut serving = Serving::start(&group);
        let to = common::port_of(&group);
        ask(to);
        // One of them has the socket, and the last one is free.
        for worker in 0..WORKERS - 1 {
            serving.block_now(worker);
            let waited = ask(to).1;
            assert!(waited < BLOCKED / 2, "{word}: {waited:?} with {} blocked", worker + 1);
        }
        serving.stop();
    }
}

/// What the first test is about must be there without the stall monitor.
#[test]
fn without_a_watch_they_wait() {
    let waits = waits("reuseport", false);
    assert!(waits[CONNECTIONS - 1] > BLOCKED / 2, "nobody waited: {:?}", waits[CONNECTIONS - 1]);
}

#[test]
fn what_was_queued_before_is_taken_over() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), WORKERS);
    let _watch = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
    let serving = Serving::start(&group);
    serving.block(0);
    serving.block(1);
    serving.block(2);
    // Three of four are blocked, and the fourth has them all.
    let mut streams: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(common::port_of(&group)).unwrap()).collect();
    for stream in &mut streams {
        answer(stream);
    }
    let rescued: u64 = group.sockets().iter().map(|socket| socket.counters().rescued()).sum();
    assert!(rescued > 0, "nothing was rescued");
    serving.stop();
}

/// A worker that echoes what comes with its own number, and blocks on `block`.
#[expect(clippy::disallowed_methods, reason = "a worker that blocks is what the test is about")]
fn echo(worker_listener: WorkerListener, ready: &Barrier, over: &AtomicBool) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    install_heartbeat(&mut builder);
    builder.enable_all().build().unwrap().block_on(async {
        let socket = std::sync::Arc::clone(worker_listener.socket());
        let mut datagrams = AsyncDatagrams::new(worker_listener).unwrap();
        ready.wait();
        while !over.load(Ordering::Relaxed) {
            let mut blocks = false;
            let turn = datagrams.receive_batch(|datagram| {
                blocks |= datagram.bytes == b"block";
                let to = datagram.peer.0.unwrap();
                rustix::net::sendto(&socket, datagram.bytes, rustix::net::SendFlags::empty(), &to).unwrap();
            });
            // Wakes up to see whether it is over.
            if let Ok(turn) = tokio::time::timeout(Duration::from_millis(100), turn).await {
                turn.unwrap();
            }
            if blocks {
                std::thread::sleep(BLOCKED);
            }
        }
    });
}

#[test]
fn datagrams_do_not_wait_for_a_blocked_worker() {
    for word in ["reuseport", "shared", "duplicate=2"] {
        let group = common::group("udp", word.parse().unwrap(), WORKERS);
        let _watch = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
        let (ready, over) = (Barrier::new(WORKERS + 1), AtomicBool::new(false));
        let mut waits = Vec::new();
        std::thread::scope(|threads| {
            for worker_listener in group.worker_listeners() {
                let (ready, over) = (&ready, &over);
                threads.spawn(move || echo(worker_listener, ready, over));
            }
            ready.wait();
            let to = common::port_of(&group);
            let query = |text: &[u8]| {
                let start = Instant::now();
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                client.set_read_timeout(Some(LOST)).unwrap();
                client.send_to(text, to).unwrap();
                while let Err(error) = client.recv_from(&mut [0; 16]) {
                    assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "no answer");
                }
                start.elapsed()
            };
            query(b"block");
            waits.extend((0..CONNECTIONS).map(|_| query(b"query")));
            over.store(true, Ordering::Relaxed);
        });
        waits.sort_unstable();
        println!("{word}: median {:?}, longest {:?}", waits[CONNECTIONS / 2], waits[CONNECTIONS - 1]);
        assert!(waits[CONNECTIONS - 1] < BLOCKED / 2, "{word}: somebody waited {:?}", waits[CONNECTIONS - 1]);
        let late = waits.iter().filter(|wait| **wait > WAIT_MAX).count();
        assert!(late <= LATE_MAX, "{word}: {late} of {CONNECTIONS} waited more than {WAIT_MAX:?}");
    }
}

/// A worker that stalls and then ends while its thread lives on: the others keep what they took over.
#[test]
#[expect(clippy::disallowed_methods, reason = "a worker that blocks is what the test is about")]
fn what_a_stalled_worker_leaves_for_good_stays_with_the_others() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), 2);
    let (tell, events) = mpsc::sync_channel(16);
    let tell = move |event| drop(tell.try_send(event));
    let _watch = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, tell).unwrap();
    let to = common::port_of(&group);
    let (over, ready) = (AtomicBool::new(false), Barrier::new(2));
    let mut serving = Serving::default();
    std::thread::scope(|threads| {
        let (worker_listener, over, ready) = (group.worker_listener(0).unwrap(), &over, &ready);
        threads.spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            install_heartbeat(&mut builder);
            builder.enable_all().build().unwrap().block_on(async {
                let listener = bbq_listen::AsyncListener::new(worker_listener).unwrap();
                ready.wait();
                std::thread::sleep(BLOCKED);
                drop(listener);
                while !over.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        });
        ready.wait();
        serving.add(&group, 1);
        // Enough that some come to the socket of the blocked one.
        (0..50).for_each(|_| _ = ask(to));
        assert!(matches!(events.recv_timeout(LOST).unwrap(), StallEvent::Stalled { worker: 0, .. }));
        // Until it has left, and longer than a look at it takes.
        let start = Instant::now();
        while start.elapsed() < BLOCKED + Duration::from_millis(500) {
            assert_eq!(ask(to).0, 1);
        }
        over.store(true, Ordering::Relaxed);
    });
    serving.stop();
}
