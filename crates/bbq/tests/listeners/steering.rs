//! If this fails, other weights for the workers need a restart of the server, or a pause for all clients.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use crate::support::client::short_connections;
use crate::support::lineage::Lineage;
use crate::support::{Setup, free_ports};
use rustix::process::Signal;

/// Enough connections that a hash gives each of two workers some.
const CONNECTIONS: u32 = 60;

/// One listener with this steering, and this number of workers. No stall detection: on a busy machine it would steer away from a worker.
fn write(setup: &Setup, steering: &str, workers: usize) {
    let spec = setup.fill("lines+tcp://127.0.0.1:{0}?distribution=reuseport");
    let text =
        format!("listen = [\"{spec}&steering={steering}\"]\nworkers = {workers}\nstall_threshold_ms = 0\n");
    fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
}

fn setup(steering: &str) -> Setup {
    let mut setup = Setup::new(&[]);
    setup.ports = free_ports(2);
    write(&setup, steering, 2);
    setup.with(&["--config", "{dir}/bbq.toml"])
}

/// The number of connections that each socket has accepted.
fn accepted(server: &Lineage<'_>) -> Vec<u64> {
    let status = server.status();
    let sockets = status["listeners"][0]["sockets"].as_array().expect("sockets");
    sockets.iter().map(|socket| socket["accepted"].as_u64().expect("a count")).collect()
}

/// Whether each socket got some of the next connections, of which the first is `number`.
fn shares(server: &Lineage<'_>, setup: &Setup, number: u32) -> Vec<bool> {
    let before = accepted(server);
    let total = || accepted(server).iter().sum::<u64>();
    let wanted = total() + u64::from(CONNECTIONS);
    short_connections(number..number + CONNECTIONS, setup.address(0));
    server.wait_status("the connections", |_| total() >= wanted);
    // New sockets begin with nothing.
    let before = before.into_iter().chain(std::iter::repeat(0));
    accepted(server).iter().zip(before).map(|(now, before)| *now > before).collect()
}

#[test]
fn a_reload_steers_without_a_pause() {
    let setup = setup("hash");
    let server = Lineage::start(&setup);
    let (inodes, started) = (server.inodes("tcp", setup.ports[0]), server.count("listening"));
    let mut open = TcpStream::connect(setup.address(0)).expect("it listens");
    open.write_all(b"half ").expect("it reads");
    assert_eq!(shares(&server, &setup, 0), [true, true]);
    for (round, (steering, wanted)) in
        [("weights:0,1", [false, true]), ("weights:1,0", [true, false]), ("hash", [true, true])]
            .into_iter()
            .enumerate()
    {
        write(&setup, steering, 2);
        server.reload();
        let listener = &server.status()["listeners"][0];
        assert_eq!(listener["steering"], steering, "{listener:#}");
        assert!(listener["spec"].as_str().expect("a spec").ends_with(steering), "{listener:#}");
        let number = (round as u32 + 1) * CONNECTIONS;
        assert_eq!(shares(&server, &setup, number), wanted, "{steering}");
    }
    write(&setup, "weights:1,2,3", 2);
    let why = server.refused(Signal::HUP);
    assert!(why.contains("3 weights for 2 workers"), "{why}");
    assert_eq!(server.status()["listeners"][0]["steering"], "hash");
    assert_eq!(server.count("listening"), started, "somebody was paused");
    open.write_all(b"and half\n").expect("it reads");
    server.wait_delivered(u64::from(4 * CONNECTIONS) + 1);
    assert_eq!(server.inodes("tcp", setup.ports[0]), inodes);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn weights_and_the_number_of_workers_change_together() {
    let setup = setup("weights:1,0");
    let mut server = Lineage::start(&setup);
    assert_eq!(shares(&server, &setup, 0), [true, false]);
    // By a reload, there and back, and the same by an upgrade.
    write(&setup, "weights:0,0,1", 3);
    server.reload();
    assert_eq!(shares(&server, &setup, CONNECTIONS), [false, false, true]);
    write(&setup, "weights:0,1", 2);
    server.upgrade();
    // That of the third is closed some seconds later.
    assert_eq!(shares(&server, &setup, 2 * CONNECTIONS)[..2], [false, true]);
    write(&setup, "weights:1,0,0,0", 4);
    server.upgrade();
    assert_eq!(shares(&server, &setup, 3 * CONNECTIONS)[..4], [true, false, false, false]);
    // A weight is missing: nothing changes.
    write(&setup, "weights:1,0,0,0", 3);
    let why = server.refused(Signal::HUP);
    assert!(why.contains("4 weights for 3 workers"), "{why}");
    assert_eq!(server.status()["listeners"][0]["steering"], "weights:1,0,0,0");
    server.wait_delivered(u64::from(4 * CONNECTIONS));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Without a stall monitor, which steering by load brings with it.
#[test]
fn steering_by_load_comes_and_goes_with_a_reload() {
    let setup = setup("load");
    let server = Lineage::start(&setup);
    for (round, steering) in ["load", "weights:1,0", "load", "hash", "load"].into_iter().enumerate() {
        if round > 0 {
            write(&setup, steering, 2);
            server.reload();
        }
        assert_eq!(server.status()["listeners"][0]["steering"], steering);
        let number = round as u32 * CONNECTIONS;
        shares(&server, &setup, number);
    }
    server.wait_delivered(u64::from(5 * CONNECTIONS));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
