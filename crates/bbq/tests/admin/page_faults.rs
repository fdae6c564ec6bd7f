//! If this fails, somebody who looks at the page without scrolling does not see that something is wrong.

use std::net::UdpSocket;
use std::sync::atomic::AtomicU64;

use serde_json::Value;

use super::browser::Browser;
use super::faulty;
use super::page::{HEIGHT, WIDTH, assert_quiet_console, url};
use crate::support::Setup;
use crate::support::fault::Fault;
use crate::support::flood::lines;
use crate::support::mounts::{Ballast, in_own_mounts};
use crate::support::stranger::Stranger;

/// The problems that are seen without scrolling.
const PROBLEMS: &str = "return [...document.querySelectorAll('#problem-list li')]
    .filter((line) => line.getBoundingClientRect().bottom <= innerHeight && line.getBoundingClientRect().height > 0)
    .map((line) => line.innerText).join('\\n')";
/// The boxes of the picture that are marked, and seen without scrolling.
const BOXES: &str = "return [...document.querySelectorAll('#flow-picture li[data-level=problem]')]
    .filter((box) => box.getBoundingClientRect().bottom <= innerHeight).map((box) => box.innerText).join('\\n')";
const STATE: &str = "return document.getElementById('state').textContent";
const LEDGER: &str = "return document.getElementById('ledger').textContent";

fn has(words: &[&str]) -> impl Fn(&Value) -> bool {
    move |seen| seen.as_str().is_some_and(|seen| words.iter().all(|word| seen.contains(word)))
}

#[test]
fn problems_are_seen_without_scrolling_and_go_again() {
    let setup = faulty::setup();
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    server.send(0, b"for nobody\n");
    browser.wait("the dead sink", PROBLEMS, has(&["sink dead cannot deliver", "Fix the destination"]));
    assert!(!has(&["name="])(&browser.run(PROBLEMS)), "a SPEC in place of a name");
    browser.wait("the ledger", LEDGER, has(&["delivered by all sinks", "by any sink 1", "balances"]));
    // The worker is held in the call by which it takes what came, until strace lets it go.
    let calls = "accept4,read,recvfrom,recvmsg,recvmmsg:delay_enter=600000000";
    let stall = Fault::inject(server.pid(), "worker-0", calls);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    // Its buffer overflows: nobody reads.
    for _ in 0..500 {
        socket.send_to(b"<34>lost", setup.address(1)).expect("it is sent");
    }
    browser.wait(
        "the problems",
        PROBLEMS,
        has(&["worker 0 is stalled", " debugger holds it: pid", "(strace)", "routers", "(kernel)", "dead"]),
    );
    browser.wait("the boxes", BOXES, has(&["worker 0", "stuck for", "dead", "cannot deliver"]));
    let title = browser.run("return document.title + document.getElementById('state').textContent");
    assert!(title.as_str().is_some_and(|title| title.contains("3 problems")), "{title}");
    drop(stall);
    browser.wait("the end of the stall", PROBLEMS, |seen| {
        !seen.as_str().is_some_and(|seen| seen.contains("stalled"))
    });
    // Since when, by the server's clock.
    let since = "return document.querySelector('#problem-list .since').textContent";
    browser.wait("since when", since, has(&["for ", "s"]));
    // Nothing is dropped any more; the problem still stands, and so does its mark.
    browser.wait("the mark", BOXES, has(&["routers", "see the problem"]));
    assert_quiet_console(&browser);
}

#[test]
fn a_foreign_member() {
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}?distribution=reuseport&name=app"]).with(&["--workers", "2"]);
    let _server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait("the server", STATE, has(&["works as configured"]));
    let stranger = Stranger::joins("tcp", setup.address(0));
    let pid = format!("pid {}", stranger.pid());
    browser.wait(
        "the stranger",
        PROBLEMS,
        has(&["listener app shares its address with", &pid, "never reach this server", "stop it"]),
    );
    browser.wait("its box", BOXES, has(&["app"]));
    stranger.leaves();
    browser.wait("its end", STATE, has(&["works as configured"]));
    assert_quiet_console(&browser);
}

#[test]
fn a_full_disk() {
    in_own_mounts("page_faults::a_full_disk", || {
        let setup = faulty::on_small_disk();
        let server = setup.start();
        let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
        browser.wait("the server", STATE, has(&["works as configured"]));
        let ballast = Ballast::fill(&setup.data());
        std::thread::scope(|scope| {
            let _guard = server.killed_if_this_fails();
            scope.spawn(|| lines(setup.address(0), "lines", &AtomicU64::new(0)));
            browser.wait("no room", PROBLEMS, has(&["lane 0", "waits for space", "ake room on its disk"]));
            // That the spool's own limit is not reached is seen from the advice.
            let advice = browser.run(PROBLEMS);
            let advice = advice.as_str().expect("text");
            assert!(!advice.contains("keeps the segments"), "{advice}");
            assert!(advice.contains("messages are in memory only"), "{advice}");
            assert!(advice.contains("senders wait (on_full=block)"), "{advice}");
            browser.wait("its box", BOXES, has(&["worker 0"]));
            ballast.remove();
            browser.wait("room", STATE, has(&["works as configured"]));
        });
        assert_quiet_console(&browser);
    });
}

/// Its workers and lanes have ended, as they were told to.
#[test]
fn a_server_that_stops_says_what_it_waits_for_and_shows_no_fault_of_its_own() {
    // Longer than this test can take. The server is killed at its end.
    let setup = faulty::setup().config("drain_timeout_seconds = 600\n");
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    server.send(0, b"for nobody\n");
    browser.wait("the dead sink", PROBLEMS, has(&["dead", "cannot deliver"]));
    server.signal(libc::SIGTERM);
    browser.wait("the stop", PROBLEMS, has(&["the server stops, and waits for sink dead, at most 600 s"]));
    assert_eq!(browser.run(STATE), "stopping");
    // Longer than a worker may be away without being taken for stalled.
    let seconds = |status: &Value| status["uptime_seconds"].as_u64().unwrap_or_default();
    let begun = seconds(&server.status());
    server.wait_status("some seconds", |status| {
        let names =
            status["findings"].as_array().into_iter().flatten().map(|finding| finding["name"].clone());
        let names: Vec<Value> = names.collect();
        assert!(names.iter().any(|name| name == "stopping"), "{names:?}");
        assert!(names.iter().all(|name| name != "worker-stalled" && name != "lane-failed"), "{names:?}");
        seconds(status) >= begun + 3
    });
    server.kill();
}
