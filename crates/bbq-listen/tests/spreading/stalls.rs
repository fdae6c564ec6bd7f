//! If this fails, connections or datagrams wait for a worker that does not come around, although others are free.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use crate::serving::{BLOCKED, LOST, Serving, answer, ask};
use bbq_listen::{STALL_THRESHOLD_DEFAULT, Watch, WatchEvent};

const WORKERS: usize = 4;
const CONNECTIONS: usize = 400;
/// The bound, against a block of two seconds: nobody waits for the blocked worker.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Of this many waits, so few may be longer for reasons of a busy machine, which are all far shorter than the block.
const LATE_MAX: usize = CONNECTIONS / 50;

/// Blocks a worker while connections arrive; answers how long each waited, sorted.
fn waits(word: &str, watched: bool) -> Vec<Duration> {
    let group = crate::common::group("tcp", word.parse().unwrap(), WORKERS);
    let (tell, events) = mpsc::sync_channel(16);
    let watch = watched.then(|| {
        let tell = move |event| drop(tell.try_send(event));
        Watch::start([&group], STALL_THRESHOLD_DEFAULT, tell).unwrap()
    });
    let serving = Serving::start(&group);
    let to = crate::common::port_of(&group);
    ask(to);
    serving.block(1);
    let mut waits = connect_all(to);
    waits.sort_unstable();
    // Elsewhere nothing may be waiting for it, and then there is nothing to do.
    if watched && word == "reuseport" {
        let event = events.recv_timeout(LOST).unwrap();
        assert!(matches!(event, WatchEvent::Stalled { worker: 1, .. }), "{event:?}");
        let event = events.recv_timeout(LOST).unwrap();
        assert!(matches!(event, WatchEvent::Recovered { worker: 1, .. }), "{event:?}");
    }
    drop(watch);
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

/// What the test above is about must be there without the watch.
#[test]
fn without_a_watch_they_wait() {
    let waits = waits("reuseport", false);
    assert!(waits[CONNECTIONS - 1] > BLOCKED / 2, "nobody waited: {:?}", waits[CONNECTIONS - 1]);
}

#[test]
fn what_was_queued_before_is_taken_over() {
    let group = crate::common::group("tcp", "reuseport".parse().unwrap(), WORKERS);
    let _watch = Watch::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
    let serving = Serving::start(&group);
    serving.block(0);
    serving.block(1);
    serving.block(2);
    // Three of four are blocked, and the fourth has them all.
    let mut streams: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(crate::common::port_of(&group)).unwrap()).collect();
    for stream in &mut streams {
        answer(stream);
    }
    let rescued: u64 = group.sockets().iter().map(|socket| socket.counters().rescued()).sum();
    assert!(rescued > 0, "nothing was rescued");
    serving.stop();
}
