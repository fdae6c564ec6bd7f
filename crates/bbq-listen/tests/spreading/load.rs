//! If this fails, steering by load sends connections to a worker that is busy, or does not find back to an even spread.

use bbq_listen::{
    Address, Distribution, Group, GroupOptions, STALL_THRESHOLD_DEFAULT, StallMonitor, Steering,
};

use crate::serving::{LOST, Serving, ask};

const WORKERS: usize = 4;

fn group(distribution: &str, workers: usize) -> Result<Group, bbq_listen::ListenError> {
    let address = Address::parse("tcp", "127.0.0.1:0").unwrap();
    let distribution: Distribution = distribution.parse().unwrap();
    GroupOptions::new(address, workers).distribution(distribution).steering(Steering::Load).open()
}

/// Connects, so that the monitor has a reason to look, until the shares are so.
fn wait_for_shares(group: &Group, what: &str, are_so: impl Fn(&[u16]) -> bool) {
    let begun = std::time::Instant::now();
    let shares = || group.load_shares().expect("it is steered by load");
    while !are_so(&shares()) {
        ask(crate::common::port_of(group));
        assert!(begun.elapsed() < LOST, "{what}: {:?}", shares());
    }
}

#[test]
fn a_worker_that_does_not_come_around_gets_nothing_until_it_is_back() {
    let group = group("reuseport", WORKERS).unwrap();
    let _monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
    let mut serving = Serving::start(&group);
    wait_for_shares(&group, "all serve", |shares| shares.iter().all(|share| *share > 128));
    serving.block_now(2);
    wait_for_shares(&group, "it is blocked", |shares| shares[2] < 256 / 4);
    wait_for_shares(&group, "it is back", |shares| shares[2] > 256 / 2);
    assert_eq!(group.steering().as_deref(), Some("load"));
    serving.stop();
}

#[test]
fn everybody_is_served_while_steering_and_workers_change() {
    let group = group("reuseport", 2).unwrap();
    let _monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, drop).unwrap();
    let mut serving = Serving::start(&group);
    let mut asked = 0;
    let mut ask_some = |steering: &str| {
        group.set_steering(&steering.parse().unwrap()).unwrap();
        // For a while also: none to the socket of a worker that was removed.
        assert!(group.steering().is_some_and(|now| now.starts_with(steering)), "{:?}", group.steering());
        (0..100).for_each(|_| _ = ask(crate::common::port_of(&group)));
        asked += 100;
    };
    for steering in ["load", "hash", "load", "weights:0,1", "load"] {
        ask_some(steering);
    }
    group.resize(4).unwrap();
    serving.add(&group, 2);
    assert_eq!(group.load_shares().map(|shares| shares.len()), Some(4));
    ask_some("load");
    group.resize(3).unwrap();
    let removed: u64 = serving.end_from(3).iter().sum();
    ask_some("load");
    assert_eq!(removed + serving.stop().iter().sum::<u64>(), asked);
}

#[test]
fn without_a_choice_it_says_so_and_where_it_is_wrong_it_is_refused() {
    let alone = group("auto", 1).unwrap();
    assert!(alone.steering().is_none_or(|steering| steering.starts_with("load")), "{:?}", alone.steering());
    let error = group("shared", 2).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("steered by load"), "{error}");
    let datagrams = GroupOptions::new(Address::parse("udp", "127.0.0.1:0").unwrap(), 2);
    let error = datagrams.steering(Steering::Load).open().unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("stay with its worker"), "{error}");
}
