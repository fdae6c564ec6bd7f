//! If this fails, messages that arrive at the last server later than others of their stream are acknowledged and thrown away: after a
//! client has changed its server, and where a sink is added to a server that holds messages in several lanes.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::process::{Command, Stdio};

use super::forward::{central, edge, edge_to};
use crate::support::fault::Fault;
use crate::support::{BBQ, Server, Setup};

/// `bbq send` of these numbers, from a spool that it keeps, to the first server that works. All of them are acknowledged.
fn send(spool: &Setup, servers: &[&Setup], numbers: Range<u32>) {
    let file = spool.path().join("numbers");
    fs::write(&file, numbers.map(|number| format!("{number}\n")).collect::<String>()).expect("a file");
    let mut command = Command::new(BBQ);
    command.arg("send").arg("--spool").arg(spool.path().join("spool"));
    for server in servers {
        command.args(["--to", &format!("bbq://{}", server.address(0))]);
    }
    let output = command.arg(file).stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

/// Every number once.
fn assert_all(last: &Setup, count: u32) {
    let text = String::from_utf8(last.written()).expect("text");
    let lines: Vec<u32> = text.lines().map(|line| line.parse().expect("a number")).collect();
    let set: BTreeSet<u32> = lines.iter().copied().collect();
    assert_eq!(
        (lines.len(), set.len(), set.last().copied()),
        (count as usize, count as usize, Some(count - 1))
    );
}

#[test]
fn what_the_first_server_still_has_arrives_after_what_came_over_the_second() {
    let last = central();
    let (first, second) = (edge(&last), edge(&last));
    let at_first = first.start();
    send(&last, &[&first, &second], 0..1000);
    at_first.kill();
    let at_second = second.start();
    send(&last, &[&first, &second], 1000..2000);
    let at_last = last.start();
    at_last.wait_delivered(1000);
    let at_first = first.start();
    at_last.wait_delivered(2000);
    assert_all(&last, 2000);
    // A restart knows the same.
    at_last.kill();
    let at_last = last.start();
    send(&last, &[&first, &second], 2000..2001);
    at_last.wait_delivered(2001);
    assert_all(&last, 2001);
    at_first.wait_delivered(1001);
    at_second.wait_delivered(1000);
}

#[test]
fn what_the_first_server_still_has_arrives_where_its_client_went_itself() {
    let last = central();
    let first = edge(&last);
    let at_first = first.start();
    send(&last, &[&first, &last], 0..1000);
    at_first.kill();
    let at_last = last.start();
    send(&last, &[&first, &last], 1000..1100);
    at_last.wait_delivered(1100 - 1000);
    let at_first = first.start();
    at_last.wait_delivered(1100);
    assert_all(&last, 1100);
    at_first.wait_delivered(1000);
    // And the client goes on at the last server, which has both.
    at_first.kill();
    send(&last, &[&first, &last], 1100..1200);
    at_last.wait_delivered(1200);
    assert_all(&last, 1200);
}

/// By a reload, and by the next start.
#[test]
fn a_sink_that_is_added_gets_a_stream_that_went_from_lane_to_lane() {
    for is_reloaded in [true, false] {
        let last = central();
        let at_last = last.start();
        let mut first = edge_to("null:");
        let configuration = first.path().join("bbq.toml");
        fs::write(&configuration, "sink = [\"null:\"]\n").expect("a configuration");
        first.set_sinks(&[]);
        let mut at_first = first.start_with_workers(2);
        for run in 0..40 {
            send(&last, &[&first], run * 10..run * 10 + 10);
            // The stream may go to the other lane when a commit covers all of it.
            let commit = format!("\ndelivered {}\n", run * 10 + 10);
            at_first.wait_status("the commit", |_| first.cursors().contains(&commit));
        }
        let status = at_first.status();
        let lanes = status["spool"]["lanes"].as_array().expect("lanes");
        assert!(lanes.iter().all(|lane| lane["records"] != 0), "{status:#}");
        let sinks = format!("sink = [\"null:\", \"bbq://{}\"]\n", last.address(0));
        fs::write(&configuration, sinks).expect("a configuration");
        if is_reloaded {
            at_first.signal(libc::SIGHUP);
        } else {
            assert_eq!(at_first.stop(), Some(0));
            at_first = first.start_with_workers(2);
        }
        at_last.wait_delivered(400);
        assert_all(&last, 400);
        drop(at_first);
    }
}

#[test]
fn a_stream_whose_lane_failed_while_the_next_server_was_away_arrives_as_a_whole() {
    whichever_lane_fails(false);
}

#[test]
fn a_stream_whose_lane_failed_arrives_as_a_whole_from_a_server_that_was_killed() {
    whichever_lane_fails(true);
}

/// The lanes are read in turn, a group of each: the one that failed comes first, and second.
fn whichever_lane_fails(is_killed: bool) {
    let mut homes = BTreeSet::new();
    for _try in 0..40 {
        let last = central();
        let first = edge(&last);
        let at_first = first.start_with_workers(2);
        send(&last, &[&first], 0..PART);
        let home = usize::from(at_first.status()["spool"]["lanes"][1]["records"] == PART);
        if homes.insert(home) {
            arrives_as_a_whole_without(home, is_killed, &last, &first, at_first);
        }
        if homes.len() == 2 {
            return;
        }
    }
    panic!("the kernel gives one of two workers no connection");
}

/// What one run of the client sends. Each is a group of its own, as it is acknowledged before the next one begins.
const PART: u32 = 40;
const PARTS: u32 = 25;

fn arrives_as_a_whole_without<'a>(
    home: usize,
    is_killed: bool,
    last: &Setup,
    first: &'a Setup,
    mut at_first: Server<'a>,
) {
    // While the last group of the other lane is read, the home lane has groups that are not.
    for part in 1..PARTS {
        send(last, &[first], part * PART..(part + 1) * PART);
    }
    assert_eq!(at_first.status()["spool"]["lanes"][home]["records"], PARTS * PART, "all are in one lane");
    let lane = format!("lane-{home}");
    let fault = Fault::inject(at_first.pid(), &lane, "fdatasync:error=EIO");
    // Nothing of the stream is in the lane's memory when it fails. The kernel chooses the worker of each connection.
    at_first.wait_status("a lane that failed", |status| {
        at_first.send(1, b"a line\n");
        status["spool"]["lanes"][home]["condition"] == "failed"
    });
    drop(fault);
    send(last, &[first], 1000..1005);
    if is_killed {
        // What the first server knew of the order of the two lanes is gone.
        at_first.kill();
        at_first = first.start_with_workers(2);
    }
    let at_last = last.start();
    at_first.wait_status("delivery", |status| status["ledger"]["queued"] == 0);
    at_last.wait_status("delivery", |status| status["ledger"]["queued"] == 0);
    let text = String::from_utf8(last.written()).expect("text");
    let numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let arrived: BTreeSet<u32> = numbers.iter().copied().collect();
    let missing: Vec<u32> = (0..1005).filter(|number| !arrived.contains(number)).collect();
    let ends = (missing.first(), missing.last());
    assert_eq!((numbers.len(), missing.len()), (1005, 0), "lane {home} failed; missing are {ends:?}");
}
