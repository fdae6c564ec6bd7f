//! If this fails, a gRPC server on a group answers no client, does not stop while a client keeps its connection, or loses the first
//! requests of clients when it stops.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use bbq_listen::FIRST_BYTE_GRACE_DEFAULT;
use rustix::process::{Signal, kill_process};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::example::{Example, command};
use crate::late::{LATE_MS, catching};

const CLIENTS: usize = 20;

#[test]
fn it_serves_a_client_of_tonic_and_ends_by_sigterm() {
    let server = start();
    let runtime = runtime();
    let client = runtime.block_on(async {
        let mut client = connect(&server).await;
        for _ in 0..10 {
            let answer = client.check(HealthCheckRequest { service: String::new() }).await.unwrap();
            assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
        }
        client
    });
    assert!(server.terminate().success);
    drop(client);
}

/// HTTP/2 clients send something as soon as they have connected, long before their first request.
#[test]
fn requests_that_come_late_are_answered() {
    let runtime = runtime();
    for late in LATE_MS.map(Duration::from_millis) {
        let server = start();
        let (counted, lost) = runtime.block_on(async {
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                clients.push(connect(&server).await);
            }
            let stops = Instant::now();
            kill_process(server.pid, Signal::TERM).unwrap();
            tokio::time::sleep(late).await;
            let asked = clients.into_iter().map(|mut client| {
                tokio::spawn(async move {
                    let answer = client.check(HealthCheckRequest { service: String::new() }).await;
                    // Nobody tells when the request was sent. A server that closes too early does so before the time is over.
                    (stops.elapsed() < FIRST_BYTE_GRACE_DEFAULT, answer.is_ok())
                })
            });
            let (mut counted, mut lost) = (0, 0);
            for answer in asked.collect::<Vec<_>>() {
                let (in_time, is_answered) = answer.await.unwrap();
                counted += usize::from(in_time);
                lost += usize::from(in_time && !is_answered);
            }
            (counted, lost)
        });
        println!("{late:?} late: {lost} lost of {counted} that kept to the promised time");
        assert_eq!(lost, 0, "of {counted} requests that came {late:?} after the stop");
        assert!(server.wait().success);
    }
}

fn start() -> Example {
    catching(Example::spawn(command("tonic_hello").arg("127.0.0.1:0")))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

async fn connect(server: &Example) -> HealthClient<Channel> {
    let endpoint = Endpoint::new(format!("http://{}", server.address)).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}
