//! If this fails, a second server started by mistake takes half of the traffic or damages the spool, or the operator is not
//! told whose process is in the way; or a killed server keeps the next one from starting.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::os::unix::net::UnixStream;

use crate::support::{BBQ, Setup, refused_start};
use std::process::Command;

const LISTEN: [&str; 5] = [
    "lines+tcp://127.0.0.1:{0}",
    "lines+udp://127.0.0.1:{1}",
    "lines+unix://{dir}/stream.sock",
    "lines+unixgram://{dir}/datagram.sock",
    "bbq+tcp://127.0.0.1:{2}?distribution=shared",
];

/// A server on another data directory, which must refuse to start; returns its output.
fn second(setup: &Setup, arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(BBQ);
    command.arg("serve").current_dir(directory.path());
    command.args(arguments.iter().map(|argument| setup.fill(argument)));
    if !arguments.contains(&"--data") {
        command.arg("--data").arg(directory.path().join("other"));
    }
    let (code, text) = refused_start(&mut command);
    assert_eq!(code, Some(1), "{text}");
    text
}

#[test]
fn the_same_data_directory_is_refused_and_its_holder_named() {
    let setup = Setup::new(&LISTEN);
    let server = setup.start();
    let data = setup.data().display().to_string();
    let text = second(&setup, &["--data", &data, "--admin", "off", "--listen", "lines+tcp://127.0.0.1:0"]);
    assert!(text.contains(&data) && text.contains(&format!("pid {}", server.pid())), "{text}");
    server.send(0, b"still here\n");
    server.wait_delivered(1);
}

#[test]
fn each_address_that_is_taken_is_refused_and_its_holder_named() {
    let setup = Setup::new(&LISTEN);
    let server = setup.start();
    let pid = format!("pid {}", server.pid());
    for spec in LISTEN {
        let text = second(&setup, &["--admin", "off", "--listen", spec]);
        let spec = setup.fill(spec);
        let address = spec.split("://").nth(1).and_then(|rest| rest.split('?').next()).expect("an address");
        assert!(text.contains(address) && text.contains(&pid), "{spec}: {text}");
    }
    let text = second(&setup, &["--admin", &setup.admin(), "--listen", "lines+tcp://127.0.0.1:0"]);
    assert!(text.contains(&setup.admin()) && text.contains(&pid), "{text}");
    // The failed starts took nothing away from the first server.
    server.send(0, b"tcp\n");
    let mut stream = UnixStream::connect(setup.path().join("stream.sock")).expect("it listens");
    stream.write_all(b"unix\n").expect("it reads");
    server.wait_delivered(2);
}

#[test]
fn socket_files_of_a_killed_server_do_not_stop_the_next_one() {
    let setup = Setup::new(&LISTEN);
    setup.start().kill();
    let path = setup.path().join("stream.sock");
    assert!(path.exists(), "the kill left the socket file, or this test shows nothing");
    let server = setup.start();
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.write_all(b"unix\n").expect("it reads");
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(!path.exists(), "an orderly stop removes it");
}
