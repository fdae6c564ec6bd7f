//! If this fails, `run_tokio_datagrams` loses datagrams that are queued when it is told to stop, or does not end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::ready;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use bbq_listen::{AsyncDatagrams, Datagram, Group, GroupOptions, SendBatch, TokioRunner};
use tokio::sync::oneshot;

use crate::client::LOST;
use crate::common;

/// Every distribution that datagrams can have.
const DISTRIBUTIONS: [&str; 3] = ["reuseport", "shared", "duplicate=2"];

/// Sends each datagram back.
pub(crate) async fn echo(mut datagrams: AsyncDatagrams) -> std::io::Result<()> {
    let mut replies = SendBatch::new(datagrams.worker_listener().socket().clone());
    loop {
        let add = |datagram: Datagram<'_>| {
            replies.reply(&datagram, |reply| {
                reply.extend_from_slice(datagram.bytes);
                true
            });
        };
        datagrams.receive_batch(add).await?;
        replies.send();
    }
}

pub(crate) fn sender(group: &Group) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(common::port_of(group)).unwrap();
    socket.set_read_timeout(Some(LOST)).unwrap();
    socket
}

pub(crate) fn receive(socket: &UdpSocket) -> u8 {
    let mut byte = [0];
    assert_eq!(socket.recv(&mut byte).unwrap(), 1);
    byte[0]
}

#[test]
fn each_is_answered() {
    for word in DISTRIBUTIONS {
        let group = common::group("udp", word.parse().unwrap(), 3);
        let (stop, stopped) = oneshot::channel::<()>();
        thread::scope(|threads| {
            threads.spawn(|| {
                let _stop = stop;
                for number in 0..100 {
                    let socket = sender(&group);
                    socket.send(&[number]).unwrap();
                    assert_eq!(receive(&socket), number, "{word}");
                }
            });
            TokioRunner::new()
                .serve_datagrams(&group, echo)
                .run_until(async { drop(stopped.await) })
                .unwrap();
        });
    }
}

/// Many times, as workers end while others still receive.
#[test]
fn what_is_queued_is_received_and_answered() {
    for word in DISTRIBUTIONS.repeat(20) {
        let group = common::group("udp", word.parse().unwrap(), 3);
        let sockets: Vec<UdpSocket> = (0..100).map(|_| sender(&group)).collect();
        sockets.iter().for_each(|socket| assert_eq!(socket.send(&[1]).unwrap(), 1));
        // It is told to stop before it has received anything.
        TokioRunner::new().serve_datagrams(&group, echo).run_until(ready(())).unwrap();
        assert_eq!(group.taken().iter().sum::<u64>(), 100, "{word}");
        sockets.iter().for_each(|socket| assert_eq!(receive(socket), 1, "{word}"));
    }
}

/// The second worker has a queue of its own, and does not come to it.
#[test]
fn what_is_queued_for_a_worker_that_has_ended_is_received_by_the_others() {
    let group = common::group("udp", "reuseport".parse().unwrap(), 2);
    let sockets: Vec<UdpSocket> = (0..100).map(|_| sender(&group)).collect();
    sockets.iter().for_each(|socket| assert_eq!(socket.send(&[1]).unwrap(), 1));
    let serve = async |datagrams: AsyncDatagrams| match datagrams.worker_listener().worker() {
        0 => echo(datagrams).await,
        _ => Ok(()),
    };
    TokioRunner::new().serve_datagrams(&group, serve).run_until(ready(())).unwrap();
    assert_eq!(group.taken().iter().sum::<u64>(), 100);
}

/// The second worker is blocked until the first has received everything, which looks into every queue before it ends.
#[test]
fn what_is_queued_for_a_blocked_worker_is_received_by_the_others() {
    let group = common::group("udp", "reuseport".parse().unwrap(), 2);
    let sockets: Vec<UdpSocket> = (0..100).map(|_| sender(&group)).collect();
    sockets.iter().for_each(|socket| assert_eq!(socket.send(&[1]).unwrap(), 1));
    let serve = async |datagrams: AsyncDatagrams| {
        if datagrams.worker_listener().worker() == 0 {
            return echo(datagrams).await;
        }
        let began = Instant::now();
        while group.taken()[0] < 100 && began.elapsed() < LOST {
            thread::yield_now();
        }
        Ok(())
    };
    TokioRunner::new().serve_datagrams(&group, serve).run_until(ready(())).unwrap();
    assert_eq!(group.taken(), [100, 0]);
}

#[test]
fn those_of_a_unix_socket_come_without_an_address() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let address = format!("unixgram://{}", path.display()).parse().unwrap();
    let group = GroupOptions::new(address, 2).open().unwrap();
    let client = UnixDatagram::unbound().unwrap();
    client.set_nonblocking(true).unwrap();
    // As many as the queue takes, mostly 11.
    let sent = (0..50).take_while(|_| client.send_to(b"x", &path).is_ok()).count();
    assert!(sent > 0);
    let received = AtomicUsize::new(0);
    let serve = async |mut datagrams: AsyncDatagrams| {
        loop {
            let count = |datagram: Datagram<'_>| {
                assert!(datagram.bytes == b"x" && datagram.peer.0.is_none());
                received.fetch_add(1, Ordering::Relaxed);
            };
            datagrams.receive_batch(count).await?;
        }
    };
    TokioRunner::new().serve_datagrams(&group, serve).run_until(ready(())).unwrap();
    assert_eq!(received.into_inner(), sent);
}

/// A server that ends by itself is given the time to.
#[test]
fn the_server_learns_of_the_stop_when_everything_is_received() {
    let group = common::group("udp", "reuseport".parse().unwrap(), 2);
    let socket = sender(&group);
    socket.send(&[7]).unwrap();
    let received = AtomicUsize::new(0);
    let serve = async |mut datagrams: AsyncDatagrams| {
        let stopped = datagrams.stopped();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => return Ok(()),
                batch = datagrams.receive_batch(|_datagram| ()) => {
                    received.fetch_add(batch?.received, Ordering::Relaxed);
                }
            }
        }
    };
    TokioRunner::new().serve_datagrams(&group, serve).run_until(ready(())).unwrap();
    assert_eq!(received.into_inner(), 1);
}

#[test]
fn a_group_of_connections_is_refused() {
    let group = common::group("tcp", "auto".parse().unwrap(), 2);
    let error =
        TokioRunner::new().serve_datagrams(&group, echo).run_until(std::future::pending()).unwrap_err();
    assert!(error.to_string().contains("has connections, not datagrams"), "{error}");
}
