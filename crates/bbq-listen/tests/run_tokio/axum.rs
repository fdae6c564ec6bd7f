//! If this fails, an axum server on a listener does not stop in time, does not know its clients, or its handlers' answers are cut
//! off by a stop.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Instant;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use axum::serve::ListenerExt;
use bbq_listen::{AsyncListener, DRAIN_TIMEOUT, PeerAddress, TokioRunner};
use tokio::sync::oneshot;

use crate::client::{beside, connect};
use crate::common;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

#[test]
fn a_graceful_shutdown_closes_idle_connections_and_serves_what_is_queued() {
    let group = common::group("tcp", "reuseport".parse().unwrap(), 2);
    let to = common::port_of(&group);
    let (stop, stopped) = oneshot::channel::<Instant>();
    let serve = |listener: AsyncListener| {
        let stopped = listener.stopped();
        axum::serve(listener, Router::new().route("/", get(async || "OK"))).with_graceful_shutdown(stopped)
    };
    let mut since = None;
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut kept = connect(to);
            assert_eq!(ask(&mut kept), "OK");
            stop.send(Instant::now()).unwrap();
            assert_eq!(kept.read(&mut [0]).unwrap(), 0);
        });
        TokioRunner::new().serve(&group, serve).run_until(async { since = stopped.await.ok() }).unwrap();
    });
    let took = since.unwrap().elapsed();
    assert!(took < DRAIN_TIMEOUT / 2, "it took {took:?}");
    // The next run is told to stop before it has accepted anything.
    let mut streams: Vec<_> = (0..50).map(|_| connect(to)).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(REQUEST).unwrap());
    thread::scope(|threads| {
        threads.spawn(|| streams.into_iter().for_each(|mut stream| assert_eq!(body(&mut stream), "OK")));
        TokioRunner::new().serve(&group, serve).run_until(std::future::ready(())).unwrap();
    });
}

#[test]
fn handlers_get_the_address_of_the_client() {
    let group = common::group("tcp", "auto".parse().unwrap(), 2);
    let serve = |listener: AsyncListener| {
        let mine = get(async |ConnectInfo(peer): ConnectInfo<PeerAddress>| peer.to_string());
        let app = Router::new().route("/", mine);
        axum::serve(listener, app.into_make_service_with_connect_info::<PeerAddress>())
    };
    beside(&group, serve, its_address_is_known);
    let serve = |listener: AsyncListener| {
        let mine = get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string());
        let app = Router::new().route("/", mine);
        axum::serve(listener.tap_io(|_stream| {}), app.into_make_service_with_connect_info::<SocketAddr>())
    };
    beside(&group, serve, its_address_is_known);
}

fn its_address_is_known(to: SocketAddr) {
    let mut stream = connect(to);
    let mine = stream.local_addr().unwrap().to_string();
    assert_eq!(ask(&mut stream), mine);
}

fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(REQUEST).unwrap();
    body(stream)
}

/// The body of the answer, which is short enough to come at once.
fn body(stream: &mut TcpStream) -> String {
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or(answer)
}
