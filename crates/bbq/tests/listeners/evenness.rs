//! If this fails, one worker gets more than its share of the connections, or some of them are lost on the way to a worker.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use crate::support::{Server, Setup, client};
use serde_json::Value;

/// Connections of one measurement.
const CONNECTIONS: u32 = 10_000;
const THREADS: u32 = 4;

/// The chi-square values, at one degree of freedom, that chance exceeds once in 1,000 and once in 100,000 runs.
const ONCE_IN_1_000: f64 = 10.828;
const ONCE_IN_100_000: f64 = 19.511;

/// Connections that each socket of the only listener has accepted so far.
fn accepted(status: &Value) -> Vec<u64> {
    let sockets = status["listeners"][0]["sockets"].as_array().expect("sockets");
    sockets.iter().map(|socket| socket["accepted"].as_u64().expect("accepted")).collect()
}

/// Makes the next 10,000 connections and returns how many each socket got.
fn measure(server: &Server<'_>, round: u32) -> Vec<u64> {
    let before = accepted(&server.status());
    let numbers = round * CONNECTIONS..(round + 1) * CONNECTIONS;
    client::short_connections_at_once(THREADS, numbers.clone(), server.setup.address(0));
    let status = server.wait_delivered(u64::from(numbers.end));
    client::assert_numbered_lines(&server.setup.written(), 0..numbers.end);
    let shares: Vec<u64> =
        accepted(&status).iter().zip(before).map(|(accepted, before)| accepted - before).collect();
    assert_eq!(shares.iter().sum::<u64>(), u64::from(CONNECTIONS), "{status:#}");
    shares
}

fn chi_square(shares: &[u64]) -> f64 {
    let expected = f64::from(CONNECTIONS) / shares.len() as f64;
    let chi_square = shares.iter().map(|share| (*share as f64 - expected).powi(2) / expected).sum();
    println!("accepted {shares:?}, chi-square {chi_square:.3}");
    chi_square
}

/// The kernel's hash has a secret that no program can set, so chance has a part in every run, and p > 0.001 alone would
/// fail one sound run in a thousand. A result between 1 in 1,000 and 1 in 100,000 is therefore measured once more, with
/// other connections, and then must pass. That fails a sound server about once in 90,000 runs (1/100,000 and 1/1,000,000
/// together), while one that gives a worker 55 of 100 connections has a chi-square of about 100 and never passes.
#[test]
fn two_workers_share_short_connections_evenly() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?distribution=reuseport"]).with(&["--workers", "2"]);
    let server = setup.start();
    let mut chi = chi_square(&measure(&server, 0));
    if chi > ONCE_IN_1_000 && chi < ONCE_IN_100_000 {
        chi = chi_square(&measure(&server, 1));
    }
    assert!(chi < ONCE_IN_1_000, "the workers' shares differ by more than chance: chi-square {chi:.3}");
}

#[test]
fn every_connection_to_a_shared_socket_arrives() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?distribution=shared"]).with(&["--workers", "2"]);
    let server = setup.start();
    assert_eq!(measure(&server, 0), [u64::from(CONNECTIONS)], "there is one socket");
}
