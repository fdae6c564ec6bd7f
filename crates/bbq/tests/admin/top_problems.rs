//! If this fails, somebody who looks at `bbq top` in 80 columns and 24 lines does not see that something is wrong, or `bbq status` and
//! /health do not say it.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::net::UdpSocket;
use std::sync::atomic::AtomicU64;

use super::faulty;
use super::terminal::Terminal;
use crate::support::fault::Fault;
use crate::support::flood::lines;
use crate::support::mounts::{Ballast, in_own_mounts};
use crate::support::stranger::Stranger;
use crate::support::{Server, Setup};
use serde_json::{Value, json};

fn top(setup: &Setup) -> Terminal {
    Terminal::top(setup, &["--interval", "0.2"])
}

/// All on one line each, above the first table.
fn shows(screen: &str, lines: &[&[&str]]) -> bool {
    let above = screen.split("SINK ").next().unwrap_or_default();
    lines.iter().all(|words| above.lines().any(|line| words.iter().all(|word| line.contains(word))))
}

/// Texts may be longer than a line.
fn without_breaks(screen: &str) -> String {
    screen.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn names(status: &Value) -> Vec<&str> {
    let findings = status["findings"].as_array().expect("findings");
    findings.iter().filter_map(|finding| finding["name"].as_str()).collect()
}

#[test]
fn a_stalled_worker_a_dead_sink_and_a_dropping_listener_at_the_same_time() {
    let setup = faulty::setup();
    let server = setup.start();
    let top = top(&setup);
    server.send(0, b"for nobody\n");
    top.wait("the dead sink", |screen| {
        shows(screen, &[&["! sink dead cannot deliver"], &["fix the destination"]])
    });
    // The worker is held in the call by which it takes what came, until strace lets it go.
    let calls = "accept4,read,recvfrom,recvmsg,recvmmsg:delay_enter=600000000";
    let stall = Fault::inject(server.pid(), "worker-0", calls);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    // Its buffer overflows: nobody reads.
    for _ in 0..500 {
        socket.send_to(b"<34>lost", setup.address(1)).expect("it is sent");
    }
    let screen = top.wait("all three", |screen| {
        let stalled: &[&str] = &["! worker 0 is stalled: it has not returned to its event loop for"];
        let dropping: &[&str] = &["! listener routers:", "messages dropped (kernel)"];
        shows(
            screen,
            &[
                stalled,
                dropping,
                &["! sink dead cannot deliver"],
                &["receive buffer was full"],
                &["a debugger holds it: pid"],
            ],
        ) && screen.contains("! 3 problems")
    });
    // The rows, too.
    for row in ["! worker 0 ", "! dead  cannot deliver "] {
        assert!(screen.lines().any(|line| line.starts_with(row)), "{screen}");
    }
    let status = server.status();
    assert!(
        status["workers"][0]["stalled"] == true && names(&status).contains(&"worker-stalled"),
        "{status:#}"
    );
    let (code, text) = server.health();
    assert!(code == 503 && text.contains("worker 0 is stalled"), "{text}");
    drop(stall);
    top.wait("the end of the stall", |screen| !screen.contains("stalled"));
    let status =
        server.wait_status("the end of the stall", |status| !names(status).contains(&"worker-stalled"));
    assert_eq!(status["workers"][0]["stalled"], false);
    assert_lists_agree(&status);
}

/// A thread that a debugger holds has said that it sleeps, and cannot say otherwise.
#[test]
fn a_worker_that_is_held_while_it_sleeps() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app"]).with(&["--workers", "1"]);
    let server = setup.start();
    let hold = Fault::inject(server.pid(), "worker-0", "epoll_wait,epoll_pwait:delay_enter=600000000");
    // Wakes it up at the latest: it is held when it goes to sleep again.
    server.send(0, b"one\n");
    let top = top(&setup);
    let screen = top.wait("the worker", |screen| {
        shows(
            screen,
            &[
                &["! worker 0 is stalled: it has not returned to its event loop for"],
                &["no worker takes its new connections"],
            ],
        )
    });
    assert!(screen.lines().any(|line| line.starts_with("! worker 0 ")), "{screen}");
    assert!(server.status()["workers"][0]["stalled"] == true);
    assert_eq!(server.health().0, 503);
    drop(hold);
    top.wait("the end", |screen| screen.contains("works as configured"));
}

/// The lists of lines are the findings.
fn assert_lists_agree(status: &Value) {
    for (list, level) in [("problems", "problem"), ("notices", "notice"), ("warnings", "warning")] {
        let of_level = status["findings"]
            .as_array()
            .expect("findings")
            .iter()
            .filter(|finding| finding["level"] == level);
        let lines = of_level.map(|finding| {
            let [text, effect, remedy] =
                ["text", "effect", "remedy"].map(|part| finding[part].as_str().expect("text"));
            let effect = if effect.is_empty() { String::new() } else { format!("; {effect}") };
            let remedy = if remedy.is_empty() { String::new() } else { format!(": {remedy}") };
            format!("{text}{effect}{remedy}")
        });
        assert_eq!(status[list], json!(lines.collect::<Vec<_>>()), "{status:#}");
    }
}

#[test]
fn a_foreign_member() {
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}?distribution=reuseport&name=app"]).with(&["--workers", "2"]);
    let server = setup.start();
    let top = top(&setup);
    top.wait("the server", |screen| screen.contains("works as configured"));
    let stranger = Stranger::joins("tcp", setup.address(0));
    let pid = format!("pid {}", stranger.pid());
    let screen = top.wait("the stranger", |screen| {
        shows(screen, &[&["! listener app shares its address with", &pid], &["and stop it"]])
    });
    assert!(screen.lines().any(|line| line.starts_with("! app ") && line.contains(&pid)), "{screen}");
    assert_lists_agree(&server.status());
    stranger.leaves();
    top.wait("its end", |screen| screen.contains("works as configured"));
}

#[test]
fn a_full_disk() {
    in_own_mounts("top_problems::a_full_disk", || {
        let setup = faulty::on_small_disk();
        let server = setup.start();
        let top = top(&setup);
        top.wait("the server", |screen| screen.contains("works as configured"));
        let ballast = Ballast::fill(&setup.data());
        std::thread::scope(|scope| {
            let _guard = server.killed_if_this_fails();
            scope.spawn(|| lines(setup.address(0), "lines", &AtomicU64::new(0)));
            let screen = top.wait("no room", |screen| {
                shows(screen, &[&["! lane 0 waits for space:"]])
                    && without_breaks(screen).contains(
                        "messages are in memory only; when memory is full, senders wait (on_full=block)",
                    )
            });
            let is_marked =
                |line: &str| line.starts_with("! worker 0 ") && line.contains("waiting-for-space");
            assert!(screen.lines().any(is_marked), "{screen}");
            ballast.remove();
            top.wait("room", |screen| screen.contains("works as configured"));
        });
        assert_balances(&server);
    });
}

fn assert_balances(server: &Server<'_>) {
    crate::support::assert_balanced(
        &server.wait_status("delivery", |status| status["ledger"]["queued"] == 0),
    );
}
