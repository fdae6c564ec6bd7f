//! If this fails, requests are lost when a server is replaced by its successor on the same sockets: those that were queued, or whose
//! connection the old process had accepted already.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bbq_listen::FIRST_BYTE_GRACE_DEFAULT;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::example::{ANSWER_TIMEOUT, Example, command};
use crate::late::{Exchange, HTTP, LATE_MS, begins, catching, sleep};
use crate::upstream::Upstream;

const CLIENTS: usize = 8;
const HAND_OVERS: usize = 4;
/// Requests between two hand-overs.
const REQUESTS: usize = 50;

#[test]
fn hyper_loses_none() {
    none_is_lost(command("hyper_http").arg("127.0.0.1:0"), &exchange(HTTP));
}

#[test]
fn axum_loses_none() {
    none_is_lost(command("axum_after").arg("127.0.0.1:0"), &exchange(HTTP));
}

#[test]
fn http_ok_loses_none() {
    for distribution in ["shared", "accept-mutex", "handoff"] {
        let options = ["--listen", "127.0.0.1:0", "--workers", "2", "--distribution", distribution];
        none_is_lost(command("http_ok").args(options), &exchange(HTTP));
    }
}

#[test]
fn threads_lose_none() {
    none_is_lost(command("std_threads").arg("127.0.0.1:0"), &exchange((b"Bob\n", b"Hello, Bob\n")));
}

#[test]
fn mio_loses_none() {
    none_is_lost(command("mio_echo").arg("127.0.0.1:0"), &exchange((b"said", b"said")));
}

#[test]
fn a_proxy_loses_none() {
    let upstream = Upstream::start();
    let options = ["--listen", "127.0.0.1:0", "--upstream", &upstream.address.to_string()];
    none_is_lost(command("stream_proxy").args(options), &exchange(HTTP));
}

#[test]
fn tonic_loses_none() {
    none_is_lost(command("tonic_hello").arg("127.0.0.1:0"), &|to, late| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::new(format!("http://{to}")).unwrap().timeout(ANSWER_TIMEOUT);
            let mut client = HealthClient::new(endpoint.connect().await.unwrap());
            let connected = Instant::now();
            tokio::time::sleep(late).await;
            let is_answered = client.check(HealthCheckRequest { service: String::new() }).await.is_ok();
            // Nobody tells when the request was sent. A server that closes too early does so before the time is over.
            (connected.elapsed(), is_answered)
        })
    });
}

/// What one client does: how long after it had connected it sent its request, and whether it got an answer.
type Client = dyn Fn(SocketAddr, Duration) -> (Duration, bool) + Sync;

pub(crate) fn exchange(
    (request, answer): Exchange,
) -> impl Fn(SocketAddr, Duration) -> (Duration, bool) + Sync {
    move |to, late| {
        let mut stream = TcpStream::connect(to).unwrap();
        let connected = Instant::now();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        sleep(late);
        let sent = stream.write_all(request);
        (connected.elapsed(), sent.is_ok() && begins(&mut stream, answer))
    }
}

fn none_is_lost(server: &Command, client: &Client) {
    for late in LATE_MS.map(Duration::from_millis) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let mut serving = start_on(&socket, server);
        let (ends, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (tell, told) = mpsc::sync_channel(REQUESTS);
        let ask = || {
            let mut lost = 0;
            while !ends.load(Ordering::Relaxed) {
                let (waited, is_answered) = client(to, late);
                // A busy machine makes some clients later than what is promised.
                lost += usize::from(!is_answered && waited < FIRST_BYTE_GRACE_DEFAULT);
                requests.fetch_add(1, Ordering::Relaxed);
                // While a server is replaced, nobody counts.
                let _ = tell.try_send(());
            }
            lost
        };
        let lost: usize = thread::scope(|threads| {
            // Also when an assertion fails.
            let _ends = EndsClients(&ends);
            let clients: Vec<_> = (0..CLIENTS).map(|_| threads.spawn(ask)).collect();
            for _ in 0..HAND_OVERS {
                let successor = start_on(&socket, server);
                let old = std::mem::replace(&mut serving, successor);
                assert!(old.terminate().success);
                (0..REQUESTS).for_each(|_| told.recv_timeout(ANSWER_TIMEOUT).unwrap());
            }
            ends.store(true, Ordering::Relaxed);
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        println!("{late:?} late: {lost} lost of {requests:?} requests over {HAND_OVERS} hand-overs");
        assert_eq!(lost, 0, "of {requests:?} requests, {late:?} after they had connected");
    }
}

/// Starts a server on a socket that is open already, as systemd passes it.
fn start_on(socket: &TcpListener, server: &Command) -> Example {
    let passes = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", passes]).arg(server.get_program()).args(server.get_args());
    shell.stdin(OwnedFd::from(socket.try_clone().unwrap()));
    catching(Example::spawn_with_input(&mut shell))
}

/// Also when an assertion fails.
pub(crate) struct EndsClients<'a>(pub(crate) &'a AtomicBool);

impl Drop for EndsClients<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
