//! If this fails, a stop of `run_tokio` closes connections before their clients have sent anything, waits for clients that send
//! nothing, or takes connections that are for the successor.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use bbq_listen::{
    Acceptor, AsyncConnection, AsyncListener, DRAIN_TIMEOUT, Distribution, Group, GroupOptions, TokioRunner,
};
use tokio::sync::oneshot;

use crate::client::{DISTRIBUTIONS, LOST, answer, connect, converse};
use crate::common;

/// Longer than any client here waits: who is not answered within it never is.
const LONG: Duration = Duration::from_secs(15);
/// The graces are a fifth of that.
const LONG_DRAIN: Duration = Duration::from_secs(75);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";

#[test]
fn requests_that_come_after_the_stop_are_answered() {
    for word in DISTRIBUTIONS {
        let group = common::group("tcp", word.parse().unwrap(), 2);
        let took = stopped_beside(&group, LONG, |stop| {
            let mut clients: Vec<_> = (0..50).map(|_| connect(common::port_of(&group))).collect();
            stop.send(()).unwrap();
            sleep(Duration::from_millis(20));
            clients.iter_mut().for_each(|client| client.write_all(REQUEST).unwrap());
            clients.iter_mut().for_each(|client| assert!(is_answered(client), "{word}"));
        });
        assert!(took < LONG, "{word}: nobody is open, and it took {took:?}");
    }
}

/// One client that sends nothing keeps the grace from ending, also for the workers that have no client.
#[test]
fn connections_of_the_grace_are_accepted_and_answered() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), 2);
    let to = common::port_of(&group);
    let took = stopped_beside(&group, LONG, |stop| {
        let silent = connect(to);
        stop.send(()).unwrap();
        for _ in 0..20 {
            let mut client = connect(to);
            sleep(Duration::from_millis(5));
            client.write_all(REQUEST).unwrap();
            assert!(is_answered(&mut client));
        }
        drop(silent);
    });
    assert!(took < LONG, "all have gone, and it took {took:?}");
}

#[test]
fn a_client_that_sends_nothing_has_the_grace_and_no_more() {
    let group = common::group("tcp", "auto".parse().unwrap(), 2);
    let grace = Duration::from_millis(300);
    let mut silent = None;
    let took = stopped_beside(&group, grace, |stop| {
        silent = Some(connect(common::port_of(&group)));
        stop.send(()).unwrap();
    });
    assert!(took >= grace && took < DRAIN_TIMEOUT / 2, "it took {took:?}");
    assert_eq!(silent.unwrap().read(&mut [0]).unwrap(), 0);
}

/// The library does not count them, and the server is not told of the stop.
#[test]
fn connections_of_batches_have_the_grace() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), 2);
    let serve = async |mut listener: AsyncListener| {
        loop {
            let greet = |accepted: bbq_listen::Accepted| {
                tokio::spawn(async move {
                    let connection = AsyncConnection::for_reading(accepted.stream).unwrap();
                    drop(connection.readable().await.unwrap());
                    rustix::io::write(&connection, b"!").unwrap();
                });
            };
            listener.accept_batch(16, greet).await?;
        }
    };
    let (stop, stopped) = oneshot::channel::<()>();
    thread::scope(|threads| {
        let clients = threads.spawn(|| {
            let mut clients: Vec<_> = (0..50).map(|_| connect(common::port_of(&group))).collect();
            drop(stop);
            sleep(Duration::from_millis(20));
            clients.iter_mut().for_each(|client| client.write_all(b"?").unwrap());
            clients.iter_mut().for_each(|client| assert_eq!(answer(client), b'!'));
        });
        let runner = TokioRunner::new().first_byte_grace(Duration::from_secs(1));
        runner.serve(&group, serve).run_until(async { drop(stopped.await) }).unwrap();
        clients.join().unwrap();
    });
}

/// The old server goes on asking for connections.
#[test]
fn what_comes_after_the_grace_is_for_the_successor() {
    let options =
        GroupOptions::new("tcp://127.0.0.1:0".parse().unwrap(), 1).distribution(Distribution::Shared);
    let old = options.open().unwrap();
    let copies = old.sockets().into_iter().map(|socket| socket.as_fd().try_clone_to_owned().unwrap());
    let successor = options.adopt(copies).unwrap();
    let to = common::port_of(&old);
    let (tell, told) = mpsc::sync_channel(1);
    let (end, ended) = oneshot::channel::<()>();
    let ended = std::sync::Mutex::new(Some(ended));
    let serve = |mut listener: AsyncListener| {
        let (stopped, tell) = (listener.stopped(), tell.clone());
        let mut ended = ended.lock().unwrap().take().unwrap();
        async move {
            tokio::spawn(async move {
                stopped.await;
                tell.send(()).unwrap();
            });
            loop {
                tokio::select! {
                    accepted = listener.accept() => { tokio::spawn(converse(accepted?.0, 0)); }
                    _ = &mut ended => return Ok(()),
                }
            }
        }
    };
    thread::scope(|threads| {
        let successor = &successor;
        threads.spawn(move || {
            let _end = end;
            told.recv_timeout(LOST).unwrap();
            let acceptor = Acceptor::new(successor.worker_listener(0).unwrap()).unwrap();
            for _ in 0..50 {
                let _client = connect(to);
                let began = Instant::now();
                while acceptor.accept_batch(1, &mut drop).unwrap().accepted == 0 {
                    assert!(began.elapsed() < LOST, "another took it");
                }
            }
        });
        TokioRunner::new().serve(&old, serve).run_until(std::future::ready(())).unwrap();
    });
}

/// It learns that its connection closes, and so sends nothing on it that gets no answer.
#[test]
fn a_client_that_asks_one_request_after_the_other_loses_none() {
    let group = common::group("tcp", "shared".parse().unwrap(), 1);
    let to = common::port_of(&group);
    stopped_beside(&group, LONG, |stop| {
        let (mut client, mut stop) = (BufReader::new(connect(to)), Some(stop));
        let mut is_told = false;
        while !is_told {
            client.get_mut().write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(client.read_line(&mut head).unwrap() > 0, "no answer after {head:?}");
            }
            client.read_exact(&mut [0; 2]).unwrap();
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            is_told = head.contains("connection: close\r\n");
            assert!(!is_told || stop.is_none(), "it closes before the stop");
            if let Some(stop) = stop.take() {
                stop.send(()).unwrap();
            }
        }
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    });
}

/// Serves `group` by axum until `clients` send the stop. Returns how long it took after that until the run was over.
fn stopped_beside(
    group: &Group,
    grace: Duration,
    clients: impl FnOnce(oneshot::Sender<()>) + Send,
) -> Duration {
    let serve = |listener: AsyncListener| listener.serve_axum(Router::new().route("/", get(async || "OK")));
    let (stop, stopped) = oneshot::channel();
    let mut since = None;
    thread::scope(|threads| {
        let clients = threads.spawn(|| clients(stop));
        let until = async {
            drop(stopped.await);
            since = Some(Instant::now());
        };
        let runner = TokioRunner::new().first_byte_grace(grace).drain_timeout(LONG_DRAIN);
        runner.serve(group, serve).run_until(until).unwrap();
        let took = since.unwrap().elapsed();
        clients.join().unwrap();
        took
    })
}

fn is_answered(client: &mut TcpStream) -> bool {
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 200 ")
}

#[expect(clippy::disallowed_methods, reason = "a client that is late is what the test is about")]
fn sleep(time: Duration) {
    thread::sleep(time);
}
