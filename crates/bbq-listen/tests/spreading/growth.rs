//! If this fails, new workers of a group for datagrams get no senders, or a sender changes its worker in the middle of a conversation.

use std::collections::HashMap;
use std::io::{PipeReader, pipe};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use bbq_listen::{Distribution, Group, ReceiveState, Receiver, WorkerListener};
use rustix::event::{PollFd, PollFlags, poll};

const CONVERSATIONS: u32 = 400;
const STRANGERS_BEFORE: u32 = 20_000;
/// At 200,000 a minute these come within five seconds.
const STRANGERS_AFTER: u32 = 16_000;
/// Datagrams on their way, so that none is dropped: the smallest receive buffer has room for more.
const WINDOW: u64 = 64;
/// What strangers send.
const BEFORE: u32 = u32::MAX - 1;
const AFTER: u32 = u32::MAX;

/// Serves until `stop` is closed. Returns what each datagram said.
fn serve(listener: WorkerListener, stop: &PipeReader, received: &AtomicU64) -> Vec<u32> {
    let mut said = Vec::new();
    let mut receiver = Receiver::new(listener, 10).unwrap();
    loop {
        let outcome = receiver
            .receive_batch(&mut |datagram| {
                said.push(u32::from_be_bytes(datagram.bytes.try_into().unwrap()));
                received.fetch_add(1, SeqCst);
            })
            .unwrap();
        if outcome.state == ReceiveState::Drained {
            let listener = receiver.worker_listener();
            let descriptors = listener.descriptors().chain([stop.as_fd()]);
            let mut waits: Vec<PollFd<'_>> =
                descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
            poll(&mut waits, None).unwrap();
            if waits.last().is_some_and(|stop| !stop.revents().is_empty()) {
                return said;
            }
        }
    }
}

/// A sender that nobody has seen.
fn stranger(number: u32) -> UdpSocket {
    let [.., high, low] = number.to_be_bytes();
    UdpSocket::bind(SocketAddr::from(([127, 78, high, low], 0))).unwrap()
}

/// Sends from strangers, and now and then from everybody in conversation.
fn load(to: SocketAddr, has_grown: &AtomicBool, sent: &AtomicU64, received: &AtomicU64) {
    let send = |from: &UdpSocket, word: u32| {
        while sent.load(SeqCst) - received.load(SeqCst) >= WINDOW {
            std::thread::yield_now();
        }
        from.send_to(&word.to_be_bytes(), to).unwrap();
        sent.fetch_add(1, SeqCst);
    };
    let conversations: Vec<UdpSocket> =
        (0..CONVERSATIONS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let (mut number, mut after) = (0, 0);
    while after < STRANGERS_AFTER {
        if number % 1000 == 0 {
            (0..).zip(&conversations).for_each(|(word, conversation)| send(conversation, word));
        }
        let word = if has_grown.load(SeqCst) { AFTER } else { BEFORE };
        send(&stranger(number), word);
        number += 1;
        after += u32::from(word == AFTER);
    }
}

#[test]
fn new_workers_have_their_share_at_once_and_no_conversation_moves() {
    let group = crate::common::group("udp", Distribution::Reuseport, 2);
    let to = crate::common::port_of(&group);
    let (has_grown, sent, received) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (stopping, stop) = pipe().unwrap();
    let said: Vec<Vec<u32>> = std::thread::scope(|threads| {
        let worker = |listener| threads.spawn(|| serve(listener, &stopping, &received));
        let mut workers: Vec<_> = group.worker_listeners().map(worker).collect();
        let loading = threads.spawn(|| load(to, &has_grown, &sent, &received));
        while sent.load(SeqCst) < STRANGERS_BEFORE.into() {
            std::thread::yield_now();
        }
        group.resize(8).unwrap();
        workers.extend(group.worker_listeners().skip(2).map(worker));
        has_grown.store(true, SeqCst);
        loading.join().unwrap();
        while received.load(SeqCst) < sent.load(SeqCst) {
            std::thread::yield_now();
        }
        drop(stop);
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut workers_of: HashMap<u32, Vec<usize>> = HashMap::new();
    for (worker, said) in said.iter().enumerate() {
        for word in said.iter().filter(|word| **word < CONVERSATIONS) {
            let workers = workers_of.entry(*word).or_default();
            if !workers.contains(&worker) {
                workers.push(worker);
            }
        }
    }
    let moved = workers_of.values().filter(|workers| workers.len() > 1).count();
    assert_eq!((workers_of.len(), moved), (CONVERSATIONS as usize, 0));
    let share = STRANGERS_AFTER as usize / 8;
    let shares: Vec<usize> =
        said.iter().map(|said| said.iter().filter(|word| **word == AFTER).count()).collect();
    println!("shares of new senders: {shares:?}");
    assert!(shares.iter().all(|one| one.abs_diff(share) <= share / 5), "{shares:?}");
    let taken: u64 = group.taken().iter().sum();
    assert_eq!(taken, sent.into_inner(), "a datagram that is handed on counts once");
}

fn receivers(group: &Group) -> Vec<Receiver> {
    group.worker_listeners().map(|listener| Receiver::new(listener, 10).unwrap()).collect()
}

fn receive(receiver: &mut Receiver) -> usize {
    let mut count = 0;
    while receiver.receive_batch(&mut |_| count += 1).unwrap().state != ReceiveState::Drained {}
    count
}

/// A group that grew from one worker to two, and a conversation with worker 0 that comes to the socket of worker 1.
fn grown() -> (Group, Receiver, Receiver, UdpSocket) {
    let group = crate::common::group("udp", Distribution::Reuseport, 1);
    let mut old = receivers(&group).remove(0);
    let to = crate::common::port_of(&group);
    let senders: Vec<UdpSocket> = (0..50).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    senders.iter().for_each(|sender| assert_eq!(sender.send_to(b"x", to).unwrap(), 1));
    assert_eq!(receive(&mut old), 50);
    group.resize(2).unwrap();
    let mut new = Receiver::new(group.worker_listener(1).unwrap(), 10).unwrap();
    for sender in senders {
        sender.send_to(b"x", to).unwrap();
        let arrived_at_new = group.sockets()[1].queue().unwrap().queue > 0;
        assert_eq!((receive(&mut new), receive(&mut old)), (0, 1), "it stays with its worker");
        if arrived_at_new {
            sender.send_to(b"x", to).unwrap();
            assert_eq!(receive(&mut new), 0, "it was handed on");
            return (group, old, new, sender);
        }
    }
    panic!("of 50 senders none is in a slot of the new worker");
}

#[test]
fn what_was_handed_on_is_not_lost_when_its_worker_ends() {
    let (group, old, mut new, sender) = grown();
    drop(old);
    assert_eq!(receive(&mut new), 1);
    sender.send_to(b"x", crate::common::port_of(&group)).unwrap();
    assert_eq!(receive(&mut new), 1, "from now on the other worker serves it");

    let (_group, old, mut new, _sender) = grown();
    assert_eq!(old.finish(|datagram| assert_eq!(datagram.bytes, b"x")), 1);
    assert_eq!(receive(&mut new), 0);

    let (group, old, new, _sender) = grown();
    group.pause();
    drop((old, new));
    assert_eq!(receive(&mut receivers(&group)[0]), 1, "its next receiver has it");
}
