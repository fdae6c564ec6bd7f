//! If this fails, a server of blocking threads, or one on another event loop, is not woken for its connections, or a stop loses
//! those that are queued.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::example::{Example, command};
use rustix::process::{Signal, kill_process};

/// More than the buffers of both ends, so that the server has to wait for room.
const LONG_BYTES: usize = 16 * 1024 * 1024;

#[test]
fn threads_greet_and_end_by_sigterm() {
    let server = start("std_threads");
    let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(b"Alice\n").unwrap();
    }
    for client in &mut clients {
        assert_eq!(rest_of(client), "Hello, Alice\n");
    }
    assert!(server.terminate().success);
}

#[test]
fn threads_that_stop_greet_who_is_queued() {
    let server = start("std_threads");
    let workers = std::thread::available_parallelism().unwrap().get();
    // Workers wait for clients that say nothing, so that others are queued.
    let silent: Vec<_> = (0..workers * 4).map(|_| server.connect()).collect();
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(b"Bob\n").unwrap();
    }
    kill_process(server.pid, Signal::TERM).unwrap();
    drop(silent);
    for client in &mut clients {
        assert_eq!(rest_of(client), "Hello, Bob\n");
    }
    assert!(server.wait().success);
}

#[test]
fn an_event_loop_of_mio_echoes() {
    let server = start("mio_echo");
    let mut clients: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write_all(format!("{number:04}").as_bytes()).unwrap();
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let mut echo = [0; 4];
        client.read_exact(&mut echo).unwrap();
        assert_eq!(echo, format!("{number:04}").as_bytes());
    }
    let client = server.connect();
    let sent: Vec<u8> = (0..LONG_BYTES).map(|index| (index / 7) as u8).collect();
    std::thread::scope(|threads| {
        threads.spawn(|| (&client).write_all(&sent).unwrap());
        let mut echo = vec![0; LONG_BYTES];
        (&client).read_exact(&mut echo).unwrap();
        assert!(echo == sent, "the echo differs");
    });
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!((&client).read(&mut [0]).unwrap(), 0);
}

fn start(name: &str) -> Example {
    Example::spawn(command(name).arg("127.0.0.1:0"))
}

fn rest_of(stream: &mut TcpStream) -> String {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    rest
}
