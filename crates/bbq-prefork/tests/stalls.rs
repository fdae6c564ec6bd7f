//! If this fails, clients wait for a child that is blocked or stopped although others are free, or one of them is lost or served
//! twice; nobody hears of such a child; or a pool that has nothing to do looks at its children for ever.
//!
//! The one connection that a child is handling is its own, and waits for it. Here it is not among those that are measured: the child that
//! blocks does so over a connection of its own, and the one that is stopped handles none. So each client must be served by another
//! child, also those that were handed to the stopped child before it was noticed, and those whose connections it has kept.
//!
//! Without the test harness, which has threads.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../../bbq-listen/tests/common/mod.rs"]
mod common;
mod stall_tests;
mod without_harness;

use std::time::{Duration, Instant};

use bbq_prefork::{PoolEvent, WorkerState};
use common::group;
use rustix::process::Signal;
use stall_tests::{Answer, CLIENTS, Running, Told, WORKERS};
use without_harness::run;

const DISTRIBUTIONS: [&str; 6] =
    ["reuseport", "shared", "accept-mutex", "handoff", "handoff=fewest", "duplicate=2"];
/// Far less than a child is held, and far more than a busy machine takes. What is printed is compared with 50 ms.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// The child that is stopped: the first to have the mutex, and to get a connection from the master.
const VICTIM: usize = 0;
/// Clients that keep their connections.
const KEPT: usize = 40;

fn main() {
    run(&[
        ("nobody_waits_for_a_child_that_is_blocked", nobody_waits_for_a_child_that_is_blocked),
        ("nobody_waits_for_a_child_that_is_stopped", nobody_waits_for_a_child_that_is_stopped),
        ("requests_on_kept_connections_go_to_the_others", requests_on_kept_connections_go_to_the_others),
        (
            "first_requests_of_silent_clients_go_to_the_others",
            first_requests_of_silent_clients_go_to_the_others,
        ),
        ("nobody_waits_for_two_children_that_are_stopped", nobody_waits_for_two_children_that_are_stopped),
        ("one_child_serves_what_waits_for_all_the_others", one_child_serves_what_waits_for_all_the_others),
        ("a_pool_with_nothing_to_do_sleeps", a_pool_with_nothing_to_do_sleeps),
    ]);
}

fn nobody_waits_for_a_child_that_is_blocked() {
    for distribution in DISTRIBUTIONS {
        let group = group("tcp", distribution.parse().unwrap(), WORKERS);
        let told = Told::new();
        let mut running = Running::start(&group, &told);
        let (worker, _client) = running.block();
        let answers = running.clients(|running| {
            assert_eq!(running.pool.states()[worker], WorkerState::Blocked, "{distribution}");
        });
        judge(&format!("{distribution}, blocked"), answers, worker, &told);
        running.until_event("recovery", |event| is_recovery(event, worker));
        let blocked =
            |event: &PoolEvent| matches!(event, PoolEvent::Blocked { worker: of, .. } if *of == worker);
        assert!(running.events.iter().any(blocked), "{distribution}: {:?}", running.events);
        running.until_it_serves(worker);
        running.end();
    }
}

fn nobody_waits_for_a_child_that_is_stopped() {
    for distribution in DISTRIBUTIONS {
        let group = group("tcp", distribution.parse().unwrap(), WORKERS);
        let told = Told::new();
        let mut running = Running::start(&group, &told);
        running.stop_child(VICTIM);
        let answers = running.clients(|running| {
            assert_eq!(running.pool.states()[VICTIM], WorkerState::Stopped, "{distribution}");
            running.signal(VICTIM, Signal::CONT);
        });
        judge(&format!("{distribution}, stopped"), answers, VICTIM, &told);
        running.until_event("recovery", |event| is_recovery(event, VICTIM));
        let stopped = |event: &PoolEvent| matches!(event, PoolEvent::Stopped { worker: VICTIM, .. });
        assert!(running.events.iter().any(stopped), "{distribution}: {:?}", running.events);
        assert_eq!(running.pool.states()[VICTIM], WorkerState::Serving, "{distribution}");
        if distribution == "reuseport" {
            assert!(running.pool.rescued()[VICTIM] > 0, "nothing was taken from its socket");
        }
        running.until_it_serves(VICTIM);
        running.end();
    }
}

/// No new client comes, and the pool sleeps when they ask.
fn requests_on_kept_connections_go_to_the_others() {
    for distribution in DISTRIBUTIONS {
        for is_blocked in [true, false] {
            let group = group("tcp", distribution.parse().unwrap(), WORKERS);
            let told = Told::new();
            let mut running = Running::start(&group, &told);
            let mut kept = running.kept_clients(KEPT);
            let (mut blocker, held) = kept.pop().unwrap();
            running.until_it_sleeps();
            if is_blocked {
                running.block_by(&mut blocker);
            } else {
                running.stop_child(held);
            }
            let had_it = kept.iter().filter(|(_, worker)| *worker == held).count();
            let (by, longest) = running.ask_again(kept.iter_mut().map(|(stream, _)| stream));
            println!(
                "{distribution}, {}: the held child had {had_it} of {KEPT}, longest wait {longest:?}",
                if is_blocked { "blocked" } else { "stopped" }
            );
            assert!(!by.contains(&held), "{distribution}: {by:?} by {held}");
            assert!(longest < WAIT_MAX, "{distribution}: {longest:?}");
            if !is_blocked {
                running.signal(held, Signal::CONT);
            }
            running.until_it_serves(held);
            // They are served by whoever has them now.
            running.ask_again(kept.iter_mut().map(|(stream, _)| stream));
            running.end();
        }
    }
}

/// With `handoff` they are a child's that has not taken them, and otherwise a child's that has found nothing to read.
fn first_requests_of_silent_clients_go_to_the_others() {
    for distribution in DISTRIBUTIONS {
        let group = group("tcp", distribution.parse().unwrap(), WORKERS);
        let told = Told::new();
        let mut running = Running::start(&group, &told);
        let mut silent: Vec<_> = (0..KEPT).map(|_| running.silent_client()).collect();
        running.until("connections", |running| running.pool.taken().iter().sum::<u64>() == KEPT as u64);
        running.until_it_sleeps();
        running.stop_child(VICTIM);
        let (by, longest) = running.ask_again(silent.iter_mut());
        println!("{distribution}, silent clients: longest wait {longest:?}");
        assert!(!by.contains(&VICTIM), "{distribution}: {by:?}");
        assert!(longest < WAIT_MAX, "{distribution}: {longest:?}");
        running.signal(VICTIM, Signal::CONT);
        running.until_it_serves(VICTIM);
        running.end();
    }
}

/// Each client comes when nobody else waits: what waits for one of the two may have woken the other.
fn nobody_waits_for_two_children_that_are_stopped() {
    for distribution in DISTRIBUTIONS {
        let group = group("tcp", distribution.parse().unwrap(), WORKERS);
        let told = Told::new();
        let mut running = Running::start(&group, &told);
        let bad = [VICTIM, VICTIM + 1];
        bad.iter().for_each(|worker| running.stop_child(*worker));
        let mut longest = Duration::ZERO;
        for client in 0..KEPT {
            let since = Instant::now();
            let by = running.answers(&mut vec![running.client(client as u16)]);
            longest = longest.max(since.elapsed());
            assert!(!bad.contains(&by[0]), "{distribution}: {by:?}");
        }
        println!("{distribution}, two stopped: longest wait {longest:?}");
        assert!(longest < WAIT_MAX, "{distribution}: {longest:?}");
        for worker in bad {
            running.signal(worker, Signal::CONT);
        }
        bad.iter().for_each(|worker| running.until_it_serves(*worker));
        running.end();
    }
}

/// Also what the master could hand to none but stopped children.
fn one_child_serves_what_waits_for_all_the_others() {
    for distribution in DISTRIBUTIONS {
        let group = group("tcp", distribution.parse().unwrap(), WORKERS);
        let told = Told::new();
        let mut running = Running::start(&group, &told);
        (0..WORKERS).for_each(|worker| running.stop_child(worker));
        let mut clients: Vec<_> = (0..40).map(|client| running.client(client)).collect();
        let stopped = |running: &Running<'_>| running.pool.states() == [WorkerState::Stopped; WORKERS];
        running.until("stopped children", |running| stopped(running));
        running.signal(VICTIM, Signal::CONT);
        let by = running.answers(&mut clients);
        assert_eq!(by, [VICTIM; 40], "{distribution}");
        assert_eq!(told.not_served_once(40), [0; 0], "{distribution}");
        (0..WORKERS).for_each(|worker| {
            running.signal(worker, Signal::CONT);
        });
        (0..WORKERS).for_each(|worker| running.until_it_serves(worker));
        running.end();
    }
}

/// Also when clients have connected and send nothing.
fn a_pool_with_nothing_to_do_sleeps() {
    for distribution in DISTRIBUTIONS {
        let group = group("tcp", distribution.parse().unwrap(), WORKERS);
        let told = Told::new();
        let mut running = Running::start(&group, &told);
        running.until_it_sleeps();
        let _silent: Vec<_> = (0..8).map(|_| running.silent_client()).collect();
        running.until_it_sleeps();
        assert_eq!(running.pool.taken().iter().sum::<u64>(), 8, "{distribution}");
        running.end();
    }
}

fn is_recovery(event: &PoolEvent, worker: usize) -> bool {
    matches!(event, PoolEvent::Recovered { worker: of, .. } if *of == worker)
}

fn judge(what: &str, mut answers: Vec<Answer>, held: usize, told: &Told) {
    answers.sort_unstable_by_key(|answer| answer.waited);
    let over = |ms| answers.iter().filter(|answer| answer.waited > Duration::from_millis(ms)).count();
    let longest = answers[CLIENTS - 1];
    println!(
        "{what}: {} of {CLIENTS} waited over 20 ms, {} over 50 ms; median {:?}, longest {:?}",
        over(20),
        over(50),
        answers[CLIENTS / 2].waited,
        longest.waited
    );
    assert!(longest.waited < WAIT_MAX, "{what}: {longest:?}");
    assert!(answers.iter().all(|answer| answer.worker != held), "{what}: {longest:?}");
    assert_eq!(told.not_served_once(CLIENTS), [0; 0], "{what}: not served once");
}
