//! If this fails, the tokio side loses a wake-up (a connection waits for ever), keeps other tasks from running, or
//! spins while descriptors are short.
#![cfg(feature = "tokio")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
mod common;

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use bbq_listen::{
    ACCEPTS_PER_BATCH_MAX, AcceptState, AsyncDatagrams, AsyncListener, DATAGRAMS_PER_CALL, Distribution,
    Group, RECEIVE_CALLS_PER_BATCH_MAX, ReceiveState, STARVED_PAUSE, WorkerListener,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Longer than any turn takes on a busy machine; reached only by a lost wake-up.
const LOST: Duration = Duration::from_secs(10);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Serves `worker_listener` in a runtime of its own: tells the worker's number for every connection, until nobody listens.
fn serve(worker_listener: WorkerListener, ready: &Barrier, accepted: &mpsc::SyncSender<usize>) {
    runtime().block_on(async {
        let worker = worker_listener.worker();
        let mut listener = AsyncListener::new(worker_listener).unwrap();
        ready.wait();
        let mut stopped = false;
        while !stopped {
            listener
                .accept_batch(ACCEPTS_PER_BATCH_MAX, |_| stopped |= accepted.send(worker).is_err())
                .await
                .unwrap();
        }
    });
}

/// Connects one at a time, each after the last was accepted; returns how many each worker accepted.
fn one_by_one(group: &Group, count: usize) -> Vec<usize> {
    let to: SocketAddr = common::port_of(group);
    let ready = Barrier::new(group.workers() + 1);
    let (sender, receiver) = mpsc::sync_channel(count);
    let mut shares = vec![0; group.workers()];
    std::thread::scope(|threads| {
        for worker_listener in group.worker_listeners() {
            let (ready, sender) = (&ready, sender.clone());
            threads.spawn(move || serve(worker_listener, ready, &sender));
        }
        ready.wait();
        for _ in 0..count {
            let client = TcpStream::connect(to).unwrap();
            shares[receiver.recv_timeout(LOST).expect("a connection was never accepted")] += 1;
            drop(client);
        }
        drop(receiver);
        // Wakes the workers until each has seen that nobody listens.
        for _ in 0..group.workers() * 200 {
            drop(TcpStream::connect(to));
        }
    });
    shares
}

#[test]
fn every_connection_is_accepted_whoever_hears_of_it() {
    for distribution in [Distribution::Reuseport, Distribution::Shared] {
        let group = common::group("tcp", distribution, 2);
        println!("{distribution}: {:?}", one_by_one(&group, 300));
    }
}

#[test]
fn every_worker_of_a_shared_group_can_accept() {
    let group = common::group("tcp", Distribution::Shared, 3);
    for worker_listener in group.worker_listeners() {
        let client = TcpStream::connect(common::port_of(&group)).unwrap();
        let accepted = runtime().block_on(async {
            let mut listener = AsyncListener::new(worker_listener).unwrap();
            tokio::time::timeout(LOST, listener.accept_batch(64, drop)).await.unwrap().unwrap().accepted
        });
        assert_eq!(accepted, 1);
        drop(client);
    }
}

#[test]
fn other_tasks_run_between_two_turns() {
    let group = common::group("tcp", Distribution::Shared, 1);
    let clients = connect(common::port_of(&group), 6);
    runtime().block_on(async {
        let mut listener = AsyncListener::new(group.worker_listener(0).unwrap()).unwrap();
        let outcome = listener.accept_batch(2, drop).await.unwrap();
        assert_eq!((outcome.accepted, outcome.state), (2, AcceptState::More));
        let other = tokio::spawn(async {});
        let outcome = tokio::time::timeout(LOST, listener.accept_batch(2, drop)).await.unwrap().unwrap();
        assert_eq!(outcome.accepted, 2);
        assert!(other.is_finished(), "the other task had to wait for the listener");
    });
    drop(clients);
}

#[test]
fn what_waits_can_be_taken_without_waiting() {
    let group = common::group("tcp", Distribution::Shared, 1);
    let clients = connect(common::port_of(&group), 3);
    runtime().block_on(async {
        let mut listener = AsyncListener::new(group.worker_listener(0).unwrap()).unwrap();
        let outcome = listener.try_accept_batch(2, drop).unwrap();
        assert_eq!((outcome.accepted, outcome.state), (2, AcceptState::More));
        let outcome = listener.try_accept_batch(2, drop).unwrap();
        assert_eq!((outcome.accepted, outcome.state), (1, AcceptState::Drained));
        assert_eq!(listener.try_accept_batch(2, drop).unwrap().accepted, 0);
    });
    drop(clients);
}

#[test]
fn starved_turns_pause_and_then_go_on() {
    // The limit is the whole process's: no other test of this file may run meanwhile.
    const CHILD: &str = "BBQ_LISTEN_TEST_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "starved_turns_pause_and_then_go_on", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("went on"), "{text}");
        return;
    }
    let group = common::group("tcp", Distribution::Shared, 1);
    let clients = connect(common::port_of(&group), 2);
    runtime().block_on(async {
        let mut listener = AsyncListener::new(group.worker_listener(0).unwrap()).unwrap();
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
        let start = std::time::Instant::now();
        let outcome = listener.accept_batch(64, drop).await.unwrap();
        assert!(matches!(outcome.state, AcceptState::Starved(_)), "{outcome:?}");
        setrlimit(Resource::Nofile, before).unwrap();
        let outcome = tokio::time::timeout(LOST, listener.accept_batch(64, drop)).await.unwrap().unwrap();
        assert_eq!((outcome.accepted, outcome.state), (2, AcceptState::Drained));
        assert!(start.elapsed() >= STARVED_PAUSE, "it tried again at once: {:?}", start.elapsed());
    });
    drop(clients);
    println!("went on");
}

#[test]
fn datagrams_come_in_bounded_turns() {
    let group = common::group("udp", Distribution::Shared, 1);
    let client = client_of(common::port_of(&group));
    let turn_max = DATAGRAMS_PER_CALL * RECEIVE_CALLS_PER_BATCH_MAX;
    for _ in 0..turn_max + 1 {
        client.send(b"datagram").unwrap();
    }
    runtime().block_on(async {
        let mut datagrams = AsyncDatagrams::new(group.worker_listener(0).unwrap()).unwrap();
        let mut turn = async || {
            let mut seen = 0;
            let turn = datagrams.receive_batch(|datagram| seen += usize::from(datagram.bytes == b"datagram"));
            let outcome = tokio::time::timeout(LOST, turn).await.unwrap().unwrap();
            assert_eq!(seen, outcome.received);
            (outcome.received, outcome.state)
        };
        assert_eq!(turn().await, (turn_max, ReceiveState::More));
        assert_eq!(turn().await, (1, ReceiveState::Drained));
        client.send(b"datagram").unwrap();
        assert_eq!(turn().await, (1, ReceiveState::Drained));
    });
}

/// Connections that are established and wait to be accepted.
fn connect(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(to).unwrap()).collect()
}

/// A UDP client connected to `to`.
fn client_of(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket
}
