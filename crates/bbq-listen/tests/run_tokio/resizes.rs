//! If this fails, a group that is resized while it is run has workers without a thread, or threads of workers that are gone; or the
//! connections of removed workers are lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use bbq_listen::{AsyncListener, Group, TokioRunner};
use tokio::sync::oneshot;

use crate::client::{DISTRIBUTIONS, LOST, answer, beside, connect, converse};
use crate::common;

type Told = (usize, bool);

/// A server that tells of each worker that begins and that ends.
fn telling(
    tell: mpsc::SyncSender<Told>,
) -> impl Fn(AsyncListener) -> Pin<Box<dyn Future<Output = io::Result<()>>>> + Sync {
    move |mut listener| {
        let tell = tell.clone();
        Box::pin(async move {
            let worker = listener.worker_listener().worker();
            tell.send((worker, true)).unwrap();
            let stopped = listener.stopped();
            let accepting = async {
                loop {
                    let (stream, _peer) = listener.accept().await?;
                    tokio::spawn(converse(stream, worker as u8));
                }
            };
            let ended = tokio::select! {
                () = stopped => Ok(()),
                ended = accepting => ended,
            };
            // At the end of the test nobody listens.
            let _ = tell.send((worker, false));
            ended
        })
    }
}

/// Runs `clients` beside such a server.
fn told(group: &Group, clients: impl FnOnce(SocketAddr, &mpsc::Receiver<Told>) + Send) {
    let (tell, told) = mpsc::sync_channel(64);
    beside(group, telling(tell), move |to| clients(to, &told));
}

fn next(told: &mpsc::Receiver<Told>, count: usize) -> Vec<Told> {
    let mut all: Vec<_> = (0..count).map(|_| told.recv_timeout(LOST).unwrap()).collect();
    all.sort_unstable();
    all
}

#[test]
fn new_workers_serve_and_removed_ones_end() {
    for word in DISTRIBUTIONS {
        let group = common::group("tcp", word.parse().unwrap(), 2);
        told(&group, |to, told| {
            assert_eq!(next(told, 2), [(0, true), (1, true)], "{word}");
            group.resize(4).unwrap();
            assert_eq!(next(told, 2), [(2, true), (3, true)], "{word}");
            let mut streams: Vec<_> = (0..100).map(|_| connect(to)).collect();
            streams.iter_mut().for_each(|stream| assert!(answer(stream) < 4));
            drop(streams);
            group.resize(1).unwrap();
            assert_eq!(next(told, 3), [(1, false), (2, false), (3, false)], "{word}");
            let mut streams: Vec<_> = (0..20).map(|_| connect(to)).collect();
            streams.iter_mut().for_each(|stream| assert_eq!(answer(stream), 0));
        });
    }
}

/// With a socket for each worker, the kernel gives a new worker its share: nobody would take it.
#[test]
fn a_new_worker_takes_its_share() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), 2);
    told(&group, |to, told| {
        next(told, 2);
        group.resize(8).unwrap();
        next(told, 6);
        let mut streams: Vec<_> = (0..200).map(|_| connect(to)).collect();
        let workers: BTreeSet<u8> = streams.iter_mut().map(answer).collect();
        assert_eq!(workers.len(), 8, "{workers:?}");
    });
}

/// The run sees both at once, as they come on its own thread.
#[test]
fn a_worker_that_is_removed_and_added_again_at_once_is_served() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), 3);
    let (tell, told) = mpsc::sync_channel(64);
    let told = Mutex::new(told);
    let (stop, stopped) = oneshot::channel::<()>();
    let (resized, is_resized) = mpsc::sync_channel(1);
    let to = common::port_of(&group);
    thread::scope(|threads| {
        let (group, told) = (&group, &told);
        threads.spawn(move || {
            let _stop = stop;
            is_resized.recv_timeout(LOST).unwrap();
            assert_eq!(next(&told.lock().unwrap(), 2), [(2, false), (2, true)]);
            let mut streams: Vec<_> = (0..100).map(|_| connect(to)).collect();
            let workers: BTreeSet<u8> = streams.iter_mut().map(answer).collect();
            assert_eq!(workers.len(), 3, "{workers:?}");
        });
        let until = async move {
            next(&told.lock().unwrap(), 3);
            group.resize(2).unwrap();
            group.resize(3).unwrap();
            resized.send(()).unwrap();
            drop(stopped.await);
        };
        TokioRunner::new().serve(group, telling(tell)).run_until(until).unwrap();
    });
}

/// Connections that wait, are open, or come meanwhile.
#[test]
fn no_connection_is_lost_while_a_run_is_resized() {
    for word in ["reuseport", "shared", "handoff"] {
        let group = common::group("tcp", word.parse().unwrap(), 2);
        let asked = AtomicUsize::new(0);
        told(&group, |to, _told| {
            thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        for _ in 0..200 {
                            answer(&mut connect(to));
                            asked.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                for workers in [5, 1, 4, 2, 3] {
                    let before = asked.load(Ordering::Relaxed);
                    while asked.load(Ordering::Relaxed) == before && before < 800 {
                        thread::yield_now();
                    }
                    group.resize(workers).unwrap();
                }
            });
        });
        assert_eq!(asked.into_inner(), 800, "{word}");
    }
}
