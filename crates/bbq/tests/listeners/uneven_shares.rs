//! If this fails, one worker gets all connections of a listener and the operator is not told, or chance alone causes an alarm.

use std::cell::Cell;

use crate::support::stranger::Stranger;
use crate::support::{Server, Setup, client};
use serde_json::{Value, json};

/// Connections between two checks of the status.
const ROUND: u32 = 100;

fn evenness(status: &Value) -> &Value {
    &status["listeners"][0]["evenness"]
}

/// Makes connections until a window is judged as wanted.
fn until(server: &Server<'_>, made: &Cell<u32>, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    server.wait_status(what, |status| {
        let first = made.get();
        made.set(first + ROUND);
        client::short_connections(first..first + ROUND, server.setup.address(0));
        wanted(evenness(status))
    })
}

fn told(setup: &Setup, level: &str) -> usize {
    setup.log().lines().filter(|line| line.contains(level) && line.contains("workers' shares")).count()
}

/// Another process of the same user can do this to a group: it joins, and steers.
#[test]
fn shares_that_become_uneven_are_told_and_so_is_their_end() {
    // Connections that one worker takes over from the other would count for the first.
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?distribution=reuseport"])
        .with(&["--workers", "2"])
        .config("stall_threshold_ms = 0\n");
    let server = setup.start();
    let made = Cell::new(0);
    assert_eq!(*evenness(&server.status()), json!(null), "nothing came yet");
    let mut stranger = Stranger::joins("tcp", setup.address(0));
    stranger.steers("first");
    let status = until(&server, &made, "uneven shares", |evenness| evenness["uneven"] == true);
    let last = evenness(&status);
    assert_eq!(last["smallest"], 0, "{last:#}");
    assert_eq!(last["largest"], last["connections"], "{last:#}");
    assert!(last["p"].as_f64().expect("p") < 1e-6 && last["chi_square"].as_f64() > Some(100.0), "{last:#}");
    let warnings = status["warnings"].as_array().expect("a list");
    let is_it = |line: &Value| {
        line.as_str().is_some_and(|line| line.contains("one worker gets far more connections"))
    };
    assert_eq!(warnings.iter().filter(|line| is_it(line)).count(), 1, "{status:#}");
    // The log is written by a thread of its own.
    server.wait_log("connections are uneven");
    assert_eq!((told(&setup, "WARN"), told(&setup, "INFO")), (1, 0), "{}", setup.log());

    stranger.steers("hash");
    stranger.leaves();
    let status = until(&server, &made, "even shares", |evenness| evenness["uneven"] == false);
    assert!(evenness(&status)["p"].as_f64().expect("p") > 1e-6, "{status:#}");
    server.wait_log("shares are even again");
    assert_eq!((told(&setup, "WARN"), told(&setup, "INFO")), (1, 1), "{}", setup.log());
    server.wait_delivered(u64::from(made.get()));
}

/// There is one socket, so that these are the workers' shares and not the sockets'.
#[test]
fn the_skew_of_a_shared_socket_is_shown() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?distribution=shared"]).with(&["--workers", "2"]);
    let server = setup.start();
    let made = Cell::new(0);
    let status = until(&server, &made, "a window", |evenness| !evenness.is_null());
    let last = evenness(&status);
    let sum = last["smallest"].as_u64().expect("a share") + last["largest"].as_u64().expect("a share");
    assert_eq!(Some(sum), last["connections"].as_u64(), "two workers have taken all: {last:#}");
}
