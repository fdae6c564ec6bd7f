//! If this fails, a group keeps descriptors of the sizes that it had before: a server that is resized now and then runs out of them.
//!
//! A file of its own, as it counts the descriptors of its process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bbq_listen::{Address, Group, GroupOptions, Steering};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn open(transport: &str, workers: usize, steering: &Steering) -> Group {
    let address = Address::parse(transport, "127.0.0.1:0").unwrap();
    let options = GroupOptions::new(address, workers).distribution("reuseport".parse().unwrap());
    options.steering(steering.clone()).open().unwrap()
}

#[test]
fn a_group_has_the_descriptors_of_its_size() {
    for (transport, steering) in [
        ("tcp", Steering::Hash),
        ("tcp", Steering::Load),
        ("udp", Steering::Hash),
        ("udp", Steering::Packets),
    ] {
        let none = descriptors();
        let fresh = open(transport, 3, &steering);
        let of_three = descriptors() - none;
        drop(fresh);
        // A process that an upgrade started with fewer workers, and that grew.
        for workers in [1, 2] {
            let group = open(transport, workers, &steering);
            group.resize(3).unwrap();
            assert_eq!(descriptors() - none, of_three, "{transport} {steering}, {workers} workers at first");
        }
    }
}
