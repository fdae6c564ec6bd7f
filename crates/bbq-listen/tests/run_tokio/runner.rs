//! If this fails, what an author sets before a run has no effect.

use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bbq_listen::{AsyncListener, DRAIN_TIMEOUT, StallEvent, TokioRunner};
use tokio::sync::oneshot;

use crate::client::{LOST, answer, connect, converse, greet};
use crate::common;

/// The worker is blocked until its stall was told.
#[test]
fn stalls_and_their_ends_are_told() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), 1);
    let to = common::port_of(&group);
    let (tell, told) = mpsc::sync_channel(16);
    let (free, blocked) = mpsc::sync_channel::<()>(1);
    let (stop, stopped) = oneshot::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let serve = async |mut listener: AsyncListener| {
        drop(listener.accept().await?);
        blocked.lock().unwrap().recv_timeout(LOST).unwrap();
        let (stream, _peer) = listener.accept().await?;
        tokio::spawn(converse(stream, 0)).await?;
        listener.accept().await.map(drop)
    };
    thread::scope(|threads| {
        threads.spawn(move || {
            let _stop = stop;
            // The server drops it before it blocks.
            assert_eq!(connect(to).read(&mut [0]).unwrap(), 0);
            let mut waits = connect(to);
            let stalled = told.recv_timeout(LOST).unwrap();
            assert!(matches!(stalled, StallEvent::Stalled { worker: 0, .. }), "{stalled:?}");
            free.send(()).unwrap();
            assert_eq!(answer(&mut waits), 0);
            let recovered = told.recv_timeout(LOST).unwrap();
            assert!(matches!(recovered, StallEvent::Recovered { worker: 0, .. }), "{recovered:?}");
        });
        let runner = TokioRunner::new().stall_threshold(Duration::from_millis(20));
        // The test's end of the channel may have gone.
        let runner = runner.on_stall(move |event| drop(tell.send(event)));
        runner.serve(&group, serve).run_until(async { drop(stopped.await) }).unwrap();
    });
}

#[test]
fn a_stop_takes_no_longer_than_it_may() {
    let group = common::group("tcp", "auto".parse().unwrap(), 2);
    let limit = Duration::from_millis(200);
    let (stop, stopped) = oneshot::channel::<Instant>();
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut stream = connect(common::port_of(&group));
            answer(&mut stream);
            stop.send(Instant::now()).unwrap();
            // It is closed in the end.
            assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
        });
        let mut since = None;
        let runner = TokioRunner::new().drain_timeout(limit);
        runner.serve(&group, greet).run_until(async { since = stopped.await.ok() }).unwrap();
        let took = since.unwrap().elapsed();
        assert!(took >= limit && took < DRAIN_TIMEOUT, "it took {took:?}");
    });
}
