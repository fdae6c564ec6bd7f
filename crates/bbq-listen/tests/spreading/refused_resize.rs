//! If this fails, a resize that cannot work changes the group all the same, or two resizes mix.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;

use bbq_listen::{Distribution, Group, ListenError, ReceiveState, Receiver};
use socket2::{Domain, Socket, Type};

/// The worker that gets each sender.
fn workers_of(group: &Group, senders: &[UdpSocket]) -> Vec<usize> {
    let to = crate::common::port_of(group);
    let listeners = group.worker_listeners();
    let mut receivers: Vec<Receiver> =
        listeners.map(|listener| Receiver::new(listener, 10).unwrap()).collect();
    let arrives_at = |sender: &UdpSocket| {
        sender.send_to(b"x", to).unwrap();
        receivers.iter_mut().position(|receiver| receiver.receive_batch(&mut |_| ()).unwrap().received == 1)
    };
    senders.iter().map(arrives_at).map(Option::unwrap).collect()
}

fn senders() -> Vec<UdpSocket> {
    (0..100).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect()
}

/// The kernel would choose by the old program, which knows no new socket.
#[test]
fn a_program_that_the_kernel_refuses_is_an_error_of_the_resize() {
    let group = crate::common::group("udp", Distribution::Reuseport, 2);
    let senders = senders();
    let before = workers_of(&group, &senders);
    lock_filter(&group.sockets()[0]);
    for workers in [4, 1] {
        let error = group.resize(workers).unwrap_err();
        assert!(matches!(error, ListenError::UnsupportedSteering { .. }), "{error:?}");
        assert!(error.to_string().contains("refuses"), "{error}");
        assert_eq!((group.workers(), group.sockets().len()), (2, 2));
    }
    assert_eq!(workers_of(&group, &senders), before);
}

/// From now on nobody can change the program. No library sets the option, so another process does it.
fn lock_filter(socket: &bbq_listen::Socket) {
    const SO_LOCK_FILTER: u32 = 44;
    let script =
        format!("import socket; socket.socket(fileno=0).setsockopt(socket.SOL_SOCKET, {SO_LOCK_FILTER}, 1)");
    let inherited = socket.as_fd().try_clone_to_owned().unwrap();
    let status = Command::new("python3").args(["-c", &script]).stdin(inherited).status().unwrap();
    assert!(status.success());
}

/// What a program returns is a place in the kernel's group: behind a stranger's socket, new ones have other places.
#[test]
fn a_group_with_a_foreign_member_does_not_grow() {
    for word in ["udp", "tcp"] {
        let group = crate::common::group(word, Distribution::Reuseport, 2);
        let kind = if word == "udp" { Type::DGRAM } else { Type::STREAM };
        let stranger = Socket::new(Domain::IPV4, kind, None).unwrap();
        stranger.set_reuse_port(true).unwrap();
        stranger.bind(&crate::common::port_of(&group).into()).unwrap();
        if word == "tcp" {
            stranger.listen(1).unwrap();
        }
        let error = group.resize(4).unwrap_err();
        let pid = std::process::id();
        assert!(
            matches!(&error, ListenError::ForeignMembers { members: 1, holder: Some(holder), .. } if holder.pid == pid),
            "{error:?}"
        );
        assert_eq!((group.workers(), group.sockets().len()), (2, 2), "{word}");
        group.resize(1).unwrap();
    }
}

/// The program in the kernel is for the workers that the group has.
#[test]
fn resizes_at_the_same_time_do_not_mix() {
    for round in 0..30 {
        let group = crate::common::group("udp", Distribution::Reuseport, 2);
        std::thread::scope(|threads| {
            for first in [2, 3] {
                let group = &group;
                threads.spawn(move || {
                    (0..20).for_each(|step| group.resize(first + 2 * (step % 3)).unwrap());
                });
            }
        });
        let (workers, sockets) = (group.workers(), group.sockets().len());
        let removed: Vec<usize> = (workers..sockets).collect();
        let suffix = if removed.is_empty() { String::new() } else { format!(", none to {removed:?}") };
        assert_eq!(group.steering(), Some(format!("hash by program{suffix}")), "round {round}");
    }
}

/// An edge-triggered loop would leave the rest until somebody sends again.
#[test]
fn a_batch_is_drained_only_when_shared_sockets_are() {
    let group = crate::common::group("udp", Distribution::Reuseport, 2);
    let mut first = Receiver::new(group.worker_listener(0).unwrap(), 10).unwrap();
    let second = Receiver::new(group.worker_listener(1).unwrap(), 10).unwrap();
    // Worker 1 ends, so its socket is shared.
    drop(second);
    let sent = senders();
    sent.iter()
        .for_each(|sender| assert_eq!(sender.send_to(b"x", crate::common::port_of(&group)).unwrap(), 1));
    let mut received = 0;
    loop {
        let outcome = first.receive_batch(&mut |_| ()).unwrap();
        received += outcome.received;
        if outcome.state == ReceiveState::Drained {
            break;
        }
    }
    assert_eq!(received, sent.len());
}
