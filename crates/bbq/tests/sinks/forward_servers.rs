//! If this fails, a server that passes messages on to one of several loses messages when that one fails, or stands still while another
//! works, or doubles messages although none was on its way.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;

use crate::forward::{central, edge_to, numbers, send, wait_problem};
use crate::support::{KilledIfThisFails, Setup};

/// A server that passes on to one of these.
fn edge(servers: &[Setup]) -> Setup {
    let addresses: Vec<String> = servers.iter().map(|setup| setup.address(0).to_string()).collect();
    edge_to(&format!("bbq://{}", addresses.join(",")))
}

fn lines(setup: &Setup) -> Vec<String> {
    let written = String::from_utf8(setup.written()).expect("text");
    written.lines().map(str::to_owned).collect()
}

#[test]
fn the_next_one_gets_them_while_the_first_is_down_and_keeps_the_job_until_it_fails() {
    let servers = [central(), central()];
    let setup = edge(&servers);
    let second = servers[1].start();
    let edge = setup.start();
    edge.send(1, b"one\n");
    second.wait_delivered(1);
    edge.wait_log("passing messages on to another server");
    // The first one is back: nothing changes, whether the edge goes on or starts again.
    let first = servers[0].start();
    edge.send(1, b"two\n");
    second.wait_delivered(2);
    edge.wait_delivered(2);
    assert_eq!(edge.stop(), Some(0));
    let edge = setup.start();
    edge.send(1, b"three\n");
    second.wait_delivered(3);
    edge.wait_delivered(3);
    second.kill();
    edge.send(1, b"four\n");
    first.wait_delivered(1);
    // Both are down.
    first.kill();
    edge.send(1, b"five\n");
    for server in &servers {
        wait_problem(&edge, &format!("bbq://{}: Connection refused", server.address(0)));
    }
    let second = servers[1].start();
    second.wait_delivered(4);
    edge.wait_delivered(5);
    edge.wait_status("no problem", |status| status["sinks"][0]["problem"].is_null());
    assert_eq!((edge.stop(), second.stop()), (Some(0), Some(0)));
    assert_eq!(lines(&servers[0]), ["four"]);
    // Each came by a connection of its own, which any worker may have taken.
    assert_eq!(
        BTreeSet::from_iter(lines(&servers[1])),
        BTreeSet::from(["one", "two", "three", "five"].map(str::to_owned))
    );
    assert_eq!(lines(&servers[1]).len(), 4);
}

#[test]
fn whichever_is_killed_each_message_is_on_one_of_them_and_no_server_has_it_twice() {
    const COUNT: u32 = 200_000;
    let servers = [central(), central()];
    let setup = edge(&servers);
    let edge = setup.start();
    let mut running = [Some(servers[0].start()), Some(servers[1].start())];
    let mut sender = send(&setup, &numbers(COUNT));
    let _killed = KilledIfThisFails::of(&sender);
    let mut kills = 0;
    while sender.try_wait().expect("it was ours").is_none() || kills < 4 {
        let index = kills % 2;
        if let Some(server) = running[index].take() {
            server.kill();
        }
        running[index] = Some(servers[index].start());
        kills += 1;
    }
    assert!(sender.wait().expect("it was ours").success());
    edge.wait_delivered(COUNT.into());
    let mut all = BTreeSet::new();
    for (server, setup) in running.into_iter().flatten().zip(&servers) {
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        let lines = lines(setup);
        let once: BTreeSet<&String> = lines.iter().collect();
        assert_eq!(once.len(), lines.len(), "{}", setup.log());
        let in_order = lines.iter().map(|line| line.parse::<u32>().expect("a number")).is_sorted();
        assert!(in_order, "{}", setup.log());
        all.extend(lines);
    }
    assert_eq!(all.len(), COUNT as usize, "{}", setup.log());
}
