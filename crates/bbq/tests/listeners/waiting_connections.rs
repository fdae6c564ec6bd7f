//! If this fails, the status does not show how many connections wait for a worker, or how long they waited.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Server, Setup, client};
use serde_json::Value;

/// Connections that the server does not take, as its limit of descriptors is reached.
const WAITING: u64 = 100;
/// The minimum wait, and how much of it the kernel's clock may miss with the slowest tick (HZ=100).
const WAIT: Duration = Duration::from_millis(200);
const TICK_MS: u64 = 10;

fn sockets(status: &Value) -> &Vec<Value> {
    status["listeners"][0]["sockets"].as_array().expect("sockets")
}

fn queues(status: &Value) -> Vec<u64> {
    sockets(status).iter().map(|socket| socket["queue"].as_u64().expect("queue")).collect()
}

fn connections(status: &Value) -> u64 {
    let workers = status["workers"].as_array().expect("workers");
    workers.iter().map(|worker| worker["connections"].as_u64().expect("connections")).sum()
}

/// Recv-Q of every socket that listens at the address.
fn queues_by_ss(setup: &Setup) -> Vec<u64> {
    let address = setup.address(0).to_string();
    let output = Command::new("ss").args(["-H", "-O", "-ltn", "src", &address]).output();
    let output = output.expect("ss of iproute2 is installed");
    let text = String::from_utf8(output.stdout).expect("text");
    let column = |line: &str| line.split_whitespace().nth(1).expect("Recv-Q").parse().expect("a number");
    text.lines().map(column).collect()
}

fn connect(server: &Server<'_>, from: u64, count: u64) -> Vec<TcpStream> {
    let connect = |number| client::connect_from(client::source(number as u32), server.setup.address(0));
    (from..from + count).map(connect).collect()
}

#[test]
fn the_queue_is_what_ss_shows_and_the_wait_is_measured() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?distribution=reuseport"])
        .prefix(&["prlimit", "--nofile=256:256"])
        .with(&["--workers", "2"]);
    let server = setup.start();
    let max = server.status()["connections_max"].as_u64().expect("connections_max");
    let served = connect(&server, 0, max);
    server.wait_status("the limit of connections", |status| connections(status) == max);

    let waiting = connect(&server, max, WAITING);
    let since = Instant::now();
    let status = server.status();
    let mut seen = queues(&status);
    assert_eq!(seen.iter().sum::<u64>(), WAITING, "{status:#}");
    let mut by_ss = queues_by_ss(&setup);
    seen.sort_unstable();
    by_ss.sort_unstable();
    assert_eq!(seen, by_ss, "{status:#}");

    while since.elapsed() < WAIT {
        std::thread::park_timeout(WAIT);
    }
    drop(served);
    let status = server.wait_status("those that waited", |status| queues(status).iter().sum::<u64>() == 0);
    // A batch may be as small as one connection, and every 16th batch is measured, so this socket has samples.
    let busiest = sockets(&status).iter().max_by_key(|socket| socket["accepted"].as_u64()).expect("a socket");
    let delay = &busiest["accept_delay_ms"];
    let longest =
        sockets(&status).iter().filter_map(|socket| socket["accept_delay_ms"]["max"].as_u64()).max();
    assert!(longest >= Some(WAIT.as_millis() as u64 - TICK_MS), "{status:#}");
    assert!(delay["p50"].as_u64() <= delay["p99"].as_u64() && delay["p99"].as_u64() <= longest, "{delay:#}");
    let buckets = delay["buckets"].as_array().expect("buckets");
    assert_eq!(
        buckets.last().expect("a bucket"),
        &serde_json::json!({"le": null, "count": delay["samples"]})
    );
    drop(waiting);
}
