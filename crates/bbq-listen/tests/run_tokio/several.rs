//! If this fails, a server of several groups serves not all of them, or does not end as one.

use std::future::{pending, ready};
use std::io;
use std::thread;
use std::time::Duration;

use bbq_listen::{AsyncDatagrams, AsyncListener, TokioRunner};
use tokio::sync::oneshot;

use crate::client::{answer, connect, greet};
use crate::common;
use crate::datagrams::{echo, receive, sender};

/// The groups have different numbers of workers: the last workers serve one group alone.
#[test]
fn each_group_is_served() {
    let streams = common::group("tcp", "reuseport".parse().unwrap(), 3);
    let others = common::group("tcp", "shared".parse().unwrap(), 2);
    let datagrams = common::group("udp", "reuseport".parse().unwrap(), 1);
    let (stop, stopped) = oneshot::channel::<()>();
    thread::scope(|threads| {
        threads.spawn(|| {
            let _stop = stop;
            for number in 0..50 {
                for (group, workers) in [(&streams, 3), (&others, 2)] {
                    assert!(answer(&mut connect(common::port_of(group))) < workers);
                }
                let socket = sender(&datagrams);
                socket.send(&[number]).unwrap();
                assert_eq!(receive(&socket), number);
            }
        });
        TokioRunner::new()
            .serve(&streams, greet)
            .serve(&others, greet)
            .serve_datagrams(&datagrams, echo)
            .run_until(async { drop(stopped.await) })
            .unwrap();
    });
    assert_eq!([&streams, &others, &datagrams].map(|group| group.taken().iter().sum::<u64>()), [50; 3]);
}

/// They are told to stop before they have accepted or received anything.
#[test]
fn what_is_queued_at_each_is_served_at_a_stop() {
    let streams = common::group("tcp", "reuseport".parse().unwrap(), 2);
    let datagrams = common::group("udp", "reuseport".parse().unwrap(), 2);
    let mut connections: Vec<_> = (0..50).map(|_| connect(common::port_of(&streams))).collect();
    let sockets: Vec<_> = (0..50).map(|_| sender(&datagrams)).collect();
    sockets.iter().for_each(|socket| assert_eq!(socket.send(&[7]).unwrap(), 1));
    thread::scope(|threads| {
        threads.spawn(move || {
            connections.iter_mut().for_each(|connection| assert!(answer(connection) < 2));
            sockets.iter().for_each(|socket| assert_eq!(receive(socket), 7));
        });
        let runner = TokioRunner::new().serve(&streams, greet).serve_datagrams(&datagrams, echo);
        runner.run_until(ready(())).unwrap();
    });
}

#[test]
fn a_worker_that_has_ended_with_one_group_goes_on_with_the_others() {
    let [ends, stays] = [(); 2].map(|()| common::group("tcp", "auto".parse().unwrap(), 2));
    let (stop, stopped) = oneshot::channel::<()>();
    let once = async |mut listener: AsyncListener| listener.accept().await.map(drop);
    thread::scope(|threads| {
        threads.spawn(|| {
            let _stop = stop;
            // One for each worker; each closes it and ends.
            for _ in 0..2 {
                let mut stream = connect(common::port_of(&ends));
                assert_eq!(io::Read::read(&mut stream, &mut [0]).unwrap(), 0);
            }
            (0..20).for_each(|_| assert!(answer(&mut connect(common::port_of(&stays))) < 2));
        });
        TokioRunner::new()
            .serve(&ends, once)
            .serve(&stays, greet)
            .run_until(async { drop(stopped.await) })
            .unwrap();
    });
}

#[test]
fn an_error_in_one_group_ends_all() {
    let streams = common::group("tcp", "auto".parse().unwrap(), 2);
    let datagrams = common::group("udp", "auto".parse().unwrap(), 1);
    let fail = async |_datagrams: AsyncDatagrams| Err(io::Error::other("out of luck"));
    let runner = TokioRunner::new().serve(&streams, greet).serve_datagrams(&datagrams, fail);
    assert_eq!(runner.run_until(pending()).unwrap_err().to_string(), "out of luck");
}

/// A future that never waits takes what tokio lets one task do at a time.
#[test]
fn one_that_is_always_ready_starves_no_other_and_holds_up_no_stop() {
    let [busy, other] = [(); 2].map(|()| common::group("tcp", "auto".parse().unwrap(), 1));
    let (stop, stopped) = oneshot::channel::<()>();
    let always_ready = async |_listener: AsyncListener| loop {
        tokio::task::consume_budget().await;
    };
    thread::scope(|threads| {
        threads.spawn(|| {
            let _stop = stop;
            (0..5).for_each(|_| assert_eq!(answer(&mut connect(common::port_of(&other))), 0));
        });
        TokioRunner::new()
            .drain_timeout(Duration::from_millis(200))
            .serve(&busy, always_ready)
            .serve(&other, greet)
            .run_until(async { drop(stopped.await) })
            .unwrap();
    });
}

#[test]
fn a_group_that_is_given_twice_is_named() {
    let group = common::group("tcp", "auto".parse().unwrap(), 1);
    let error = TokioRunner::new().serve(&group, greet).serve(&group, greet).run().unwrap_err();
    assert!(error.to_string().contains("the same group twice"), "{error}");
}

#[test]
fn a_runner_without_a_group_says_what_to_add() {
    let error = TokioRunner::new().run().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("add one with `serve`"), "{error}");
}
