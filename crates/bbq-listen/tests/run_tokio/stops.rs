//! If this fails, a stop of `run_tokio` resets connections that are queued, cuts off what is in progress, or takes too long.

use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bbq_listen::{AsyncListener, DRAIN_TIMEOUT, TokioRunner};
use tokio::io::AsyncWriteExt;
use tokio::sync::{oneshot, watch};

use crate::client::{DISTRIBUTIONS, LOST, answer, connect, converse, greet};
use crate::common;

#[test]
fn what_is_queued_is_served() {
    for word in DISTRIBUTIONS {
        let group = common::group("tcp", word.parse().unwrap(), 3);
        let to = common::port_of(&group);
        let streams: Vec<_> = (0..100).map(|_| connect(to)).collect();
        thread::scope(|threads| {
            threads.spawn(|| streams.into_iter().for_each(|mut stream| assert!(answer(&mut stream) < 3)));
            // It is told to stop before it has accepted anything.
            TokioRunner::new().serve(&group, greet).run_until(std::future::ready(())).unwrap();
        });
        assert_eq!(group.taken().iter().sum::<u64>(), 100, "{word}");
    }
}

/// Many times, as workers end while others, or the acceptor thread of `handoff`, still have connections.
#[test]
fn batches_are_drained_too() {
    for word in DISTRIBUTIONS.repeat(20) {
        let group = common::group("tcp", word.parse().unwrap(), 3);
        let to = common::port_of(&group);
        let streams: Vec<_> = (0..100).map(|_| connect(to)).collect();
        let serve = async |mut listener: AsyncListener| {
            loop {
                listener.accept_batch(16, drop).await?;
            }
        };
        let runner = TokioRunner::new().first_byte_grace(Duration::ZERO);
        runner.serve(&group, serve).run_until(std::future::ready(())).unwrap();
        assert_eq!(group.taken().iter().sum::<u64>(), 100, "{word}");
        drop(streams);
    }
}

/// The server is not asked to: its future never ends.
#[test]
fn what_is_in_progress_is_finished() {
    let group = common::group("tcp", "auto".parse().unwrap(), 2);
    let (stop, stopping) = watch::channel(false);
    let serve = |mut listener: AsyncListener| {
        let stopping = stopping.clone();
        async move {
            loop {
                let (mut stream, _peer) = listener.accept().await?;
                let mut stopping = stopping.clone();
                tokio::spawn(async move {
                    stream.write_all(b"?").await?;
                    stopping.wait_for(|stop| *stop).await.unwrap();
                    // A request that takes longer than an idle server needs to end.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    stream.write_all(b"!").await
                });
            }
        }
    };
    let mut until = stopping.clone();
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut stream = connect(common::port_of(&group));
            assert_eq!(answer(&mut stream), b'?');
            stop.send_replace(true);
            assert_eq!(answer(&mut stream), b'!');
        });
        let until = async move { drop(until.wait_for(|stop| *stop).await) };
        TokioRunner::new().serve(&group, serve).run_until(until).unwrap();
    });
}

#[test]
fn a_client_that_does_nothing_delays_it_no_longer_than_the_limit() {
    let group = common::group("tcp", "auto".parse().unwrap(), 2);
    let (stop, stopped) = oneshot::channel::<Instant>();
    thread::scope(|threads| {
        let idle = threads.spawn(|| {
            let mut stream = connect(common::port_of(&group));
            answer(&mut stream);
            stop.send(Instant::now()).unwrap();
            // It is closed in the end.
            assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
        });
        let mut since = None;
        TokioRunner::new().serve(&group, greet).run_until(async { since = stopped.await.ok() }).unwrap();
        let took = since.unwrap().elapsed();
        assert!(took >= DRAIN_TIMEOUT && took < DRAIN_TIMEOUT * 2, "it took {took:?}");
        idle.join().unwrap();
    });
}

/// Also when nothing is open, and the listener not yet dropped.
#[test]
fn a_server_that_is_told_of_the_stop_ends_by_itself() {
    let group = common::group("tcp", "shared".parse().unwrap(), 2);
    let (tell, told) = mpsc::sync_channel(2);
    let to = common::port_of(&group);
    let mut stream = connect(to);
    let serve = |mut listener: AsyncListener| {
        let tell = tell.clone();
        async move {
            let stopped = listener.stopped();
            let mut accepted = 0;
            tokio::pin!(stopped);
            loop {
                tokio::select! {
                    connection = listener.accept() => {
                        accepted += 1;
                        tokio::spawn(converse(connection?.0, 7));
                    }
                    () = &mut stopped => break,
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            tell.send(accepted).unwrap();
            Ok(())
        }
    };
    thread::scope(|threads| {
        threads.spawn(move || assert_eq!(answer(&mut stream), 7));
        TokioRunner::new().serve(&group, serve).run_until(std::future::ready(())).unwrap();
    });
    let accepted: usize = (0..2).map(|_| told.recv_timeout(LOST).unwrap()).sum();
    assert_eq!(accepted, 1, "what was queued comes before the stop");
}
