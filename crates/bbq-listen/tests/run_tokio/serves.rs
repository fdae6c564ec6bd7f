//! If this fails, connections of a `run_tokio` are lost, miscounted, or wait for a worker that is stalled.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bbq_listen::{AsyncListener, Group};
use tokio::io::AsyncReadExt;
use tokio::runtime::Builder;
use tokio::sync::Notify;

use crate::client::{DISTRIBUTIONS, LOST, answer, beside, connect, converse, greet};
use crate::common;

/// How long a blocked worker does nothing.
const BLOCKED: Duration = Duration::from_secs(2);

#[test]
fn every_connection_is_served_and_counted_while_it_is_open() {
    for word in DISTRIBUTIONS {
        let group = common::group("tcp", word.parse().unwrap(), 3);
        beside(&group, greet, |to| {
            let mut streams: Vec<_> = (0..200).map(|_| connect(to)).collect();
            streams.iter_mut().for_each(|stream| assert!(answer(stream) < 3));
            assert_eq!(group.open_connections().iter().sum::<usize>(), 200, "{word}");
        });
        assert_eq!(group.open_connections(), [0, 0, 0], "{word}");
        assert_eq!(group.taken().iter().sum::<u64>(), 200, "{word}");
    }
}

#[test]
fn the_peer_is_the_clients_address() {
    let group = Group::at("127.0.0.1:0").unwrap().workers(1).open().unwrap();
    let (tell, told) = mpsc::sync_channel(1);
    let serve = |mut listener: AsyncListener| {
        let tell = tell.clone();
        async move {
            let (stream, peer) = listener.accept().await?;
            tell.send((peer, stream.peer_addr()?)).unwrap();
            Ok(())
        }
    };
    beside(&group, serve, move |to| {
        let mine = connect(to).local_addr().unwrap();
        assert_eq!(told.recv_timeout(LOST).unwrap(), (mine, mine));
    });
}

/// The stream alone does not count: what it is split into may.
#[test]
fn a_stream_in_parts_counts_until_its_second_part_is_dropped() {
    let group = common::group("tcp", "shared".parse().unwrap(), 2);
    let (close, closed) = (Notify::new(), Notify::new());
    let serve = async |mut listener: AsyncListener| {
        let (stream, _peer) = listener.accept().await?;
        let (stream, open) = stream.into_parts();
        drop(stream);
        close.notified().await;
        drop(open);
        closed.notify_one();
        Ok(())
    };
    beside(&group, serve, |to| {
        assert_eq!(connect(to).read(&mut [0]).unwrap(), 0);
        assert_eq!(group.open_connections().iter().sum::<usize>(), 1);
        close.notify_one();
        Builder::new_current_thread().build().unwrap().block_on(closed.notified());
        assert_eq!(group.open_connections().iter().sum::<usize>(), 0);
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a worker that blocks is what the test is about")]
fn nobody_waits_for_a_blocked_worker() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), 2);
    let (tell, blocked) = mpsc::sync_channel(1);
    let blocks = AtomicBool::new(true);
    let serve = async |mut listener: AsyncListener| {
        let worker = listener.worker_listener().worker() as u8;
        loop {
            let (mut stream, _peer) = listener.accept().await?;
            if blocks.swap(false, Ordering::Relaxed) {
                stream.read_exact(&mut [0]).await?;
                tell.send(()).unwrap();
                std::thread::sleep(BLOCKED);
            }
            tokio::spawn(converse(stream, worker));
        }
    };
    beside(&group, serve, move |to| {
        connect(to).write_all(b"b").unwrap();
        blocked.recv_timeout(LOST).unwrap();
        let start = Instant::now();
        let mut streams: Vec<_> = (0..100).map(|_| connect(to)).collect();
        streams.iter_mut().for_each(|stream| assert!(answer(stream) < 2));
        let waited = start.elapsed();
        assert!(waited < BLOCKED / 2, "somebody waited {waited:?}");
    });
}
