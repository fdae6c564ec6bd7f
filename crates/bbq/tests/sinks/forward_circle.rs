//! If this fails, servers that pass messages on in a circle store messages again that came back, or do not say that they are a circle.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use crate::forward::{send, wait_problem};
use crate::support::{Server, Setup, assert_balanced};

const REFUSED: &str = "these messages began at this server and came back";

/// Servers that pass on to the next one, the last of them to the first, and write a file.
fn circle(servers: usize) -> Vec<Setup> {
    let setup = |_| {
        Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"])
            .config("drain_timeout_seconds = 1\n")
    };
    let mut setups: Vec<Setup> = (0..servers).map(setup).collect();
    let addresses: Vec<_> = setups.iter().map(|setup| setup.address(0)).collect();
    for (index, setup) in setups.iter_mut().enumerate() {
        let next = addresses[(index + 1) % servers];
        setup.set_sinks(&[&format!("bbq://{next}"), "file:{dir}/out.log"]);
    }
    setups
}

/// Sends a line to the first server. The last one is refused when it passes the line on to the first.
fn is_refused(setups: &[Setup], running: &[Server<'_>]) {
    running[0].send(1, b"a line\n");
    wait_problem(running.last().expect("one at least"), REFUSED);
    for (server, setup) in running.iter().zip(setups) {
        let status = server.wait_status("the file", |status| status["sinks"][1]["delivered"] == 1);
        assert_eq!(status["ledger"]["received"], 1, "{status:#}");
        assert_balanced(&status);
        assert_eq!(setup.written(), b"a line\n");
    }
}

#[test]
fn what_comes_back_is_refused() {
    for servers in 1..=3 {
        let setups = circle(servers);
        let running: Vec<Server<'_>> = setups.iter().map(Setup::start).collect();
        is_refused(&setups, &running);
    }
}

#[test]
fn what_a_client_sent_is_known_when_it_comes_back() {
    let setups = circle(2);
    let [first, second] = [setups[0].start(), setups[1].start()];
    let mut sender = send(&setups[0], "one\ntwo\n");
    assert!(sender.wait().expect("it was ours").success());
    first.wait_status("two known", |status| status["listeners"][0]["ledger"]["duplicates"] == 2);
    for server in [&first, &second] {
        let status = server.wait_delivered_by(1, 2);
        assert_eq!(status["ledger"]["received"], 2, "{status:#}");
    }
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));
    assert_eq!([setups[0].written(), setups[1].written()], [b"one\ntwo\n", b"one\ntwo\n"]);
}

#[test]
fn it_goes_on_when_the_sink_that_closes_the_circle_is_gone() {
    let mut setups = circle(2);
    let mut running: Vec<Server<'_>> = setups.iter().map(Setup::start).collect();
    is_refused(&setups, &running);
    assert_eq!(running.pop().expect("two").stop(), Some(0));
    // Killed.
    drop(running);
    setups[1].set_sinks(&["file:{dir}/out.log"]);
    let [first, second] = [setups[0].start(), setups[1].start()];
    first.send(1, b"another\n");
    second.wait_delivered(2);
    assert_eq!(setups[1].written(), b"a line\nanother\n");
}
