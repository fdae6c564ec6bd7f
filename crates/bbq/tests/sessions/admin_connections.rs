//! If this fails, connections to the admin take the descriptors of senders, or keep others from asking.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{PATIENCE, Setup, process};

const CONNECTIONS: usize = 400;
/// What the server has open without senders, with some to spare, and the admin's share.
const DESCRIPTORS_MAX: usize = 100;

#[test]
fn connections_that_say_nothing_or_half_of_it_are_few_and_end() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).prefix(&["prlimit", "--nofile=256:256"]);
    let server = setup.start();
    let mut hogs: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|number| {
            let mut hog = TcpStream::connect(setup.admin()).expect("it listens");
            if number % 2 == 1 {
                hog.write_all(b"GET /status HTTP/1.1\r\nHo").expect("it is taken");
            }
            hog
        })
        .collect();
    // Behind all of them.
    assert_eq!(server.health().0, 200);
    let open = process::descriptors(server.pid());
    assert!(open < DESCRIPTORS_MAX, "{open} descriptors");
    server.send(0, b"message\n");
    server.wait_delivered(1);
    hogs[0].set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut answer = Vec::new();
    hogs[0].read_to_end(&mut answer).expect("it is closed");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
