//! If this fails, a second copy of a server started by mistake joins the first one's group and silently takes half of
//! its traffic, or the operator is not told who has the address.

use crate::common;
use bbq_listen::{Address, Distribution, Group, GroupOptions, ListenError};

#[test]
fn a_second_group_is_refused_and_the_holder_named() {
    for word in ["tcp", "udp"] {
        for distribution in [Distribution::Reuseport, Distribution::Shared] {
            let first = common::group(word, distribution, 2);
            for second in [Distribution::Reuseport, Distribution::Shared] {
                let mut options = GroupOptions::new(first.local_address().clone(), 2);
                options.distribution = second;
                let error = Group::open(&options).unwrap_err();
                let ListenError::AddressInUse { holder: Some(holder), address } = &error else {
                    panic!("{word} {distribution} then {second}: {error:?}");
                };
                assert_eq!(holder.pid, std::process::id());
                assert_eq!(address, first.local_address());
                let message = error.to_string();
                assert!(message.contains(&address.to_string()), "{message}");
                assert!(message.contains(&format!("pid {}", std::process::id())), "{message}");
            }
        }
    }
}

#[test]
fn the_wildcard_overlaps_every_address() {
    let first = common::group("tcp", Distribution::Reuseport, 2);
    let port = common::port_of(&first).port();
    let wildcard = Address::parse("tcp", &format!("0.0.0.0:{port}")).unwrap();
    let error = Group::open(&GroupOptions::new(wildcard, 2)).unwrap_err();
    assert!(matches!(error, ListenError::AddressInUse { holder: Some(_), .. }), "{error:?}");
}

#[test]
fn a_closed_group_leaves_the_address_free() {
    let first = common::group("tcp", Distribution::Reuseport, 2);
    let options = GroupOptions::new(first.local_address().clone(), 2);
    drop(first);
    Group::open(&options).unwrap();
}

#[test]
fn of_groups_opened_at_once_only_one_gets_the_address() {
    for word in ["tcp", "udp"] {
        // A port that was free a moment ago.
        let options = {
            let group = common::group(word, Distribution::Reuseport, 2);
            GroupOptions::new(group.local_address().clone(), 2).distribution(Distribution::Reuseport)
        };
        for round in 0..20 {
            let barrier = std::sync::Barrier::new(4);
            let results: Vec<_> = std::thread::scope(|threads| {
                let open = || {
                    barrier.wait();
                    Group::open(&options)
                };
                let handles: Vec<_> = (0..4).map(|_| threads.spawn(open)).collect();
                handles.into_iter().map(|handle| handle.join().unwrap()).collect()
            });
            let opened = results.iter().filter(|result| result.is_ok()).count();
            assert!(opened <= 1, "{word}, round {round}: {opened} groups at one address");
        }
    }
}
