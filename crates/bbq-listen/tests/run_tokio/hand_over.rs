//! If this fails, a successor that cannot start stops the server that it was to replace, or a restart cannot change the number of workers,
//! or removes the file of a unix socket.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Instant;

use bbq_listen::{AsyncListener, Group, GroupOptions, HandOver, TokioRunner};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::sync::{oneshot, watch};

use crate::client::{LOST, answer, connect, greet};
use crate::common;

/// Answers each connection with the number of workers of its group.
async fn tell_workers(listener: AsyncListener, workers: u8) -> io::Result<()> {
    let stopped = listener.stopped();
    let mut listener = listener.into_any();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            accepted = listener.accept() => accepted?.0.write_all(&[workers]).await?,
            () = &mut stopped => return Ok(()),
        }
    }
}

/// Until another one takes its sockets, or `stop` completes.
fn run(path: &Path, options: &GroupOptions, stop: impl Future<Output = ()>) {
    let mut hand_over = HandOver::at(path).unwrap();
    let group = hand_over.open(options).unwrap();
    let workers = group.workers() as u8;
    let runner = TokioRunner::new().hand_over(hand_over);
    runner.serve(&group, |listener| tell_workers(listener, workers)).run_until(stop).unwrap();
}

fn wait_until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LOST, "it does not happen");
        thread::yield_now();
    }
}

#[test]
fn a_successor_that_ends_before_it_serves_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("hand-over");
    let group = common::group("tcp", "reuseport".parse().unwrap(), 2);
    let to = common::port_of(&group);
    let (stop, stopped) = oneshot::channel::<()>();
    let first = HandOver::at(&path).unwrap();
    assert!(!first.has_predecessor());
    thread::scope(|threads| {
        threads.spawn(|| {
            let _stop = stop;
            wait_until(|| path.exists());
            for _ in 0..3 {
                let mut successor = HandOver::at(&path).unwrap();
                assert!(successor.has_predecessor());
                let same = Group::at(&to.to_string()).unwrap().workers(2);
                drop(successor.open(&same).unwrap());
            }
            assert!(answer(&mut connect(to)) < 2);
        });
        let runner = TokioRunner::new().hand_over(first);
        runner.serve(&group, greet).run_until(async { drop(stopped.await) }).unwrap();
    });
}

#[test]
fn a_restart_changes_the_number_of_workers() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("hand-over");
    let socket = common::group("tcp", "shared".parse().unwrap(), 1);
    let address = common::port_of(&socket).to_string();
    drop(socket);
    let options =
        |workers| Group::at(&address).unwrap().distribution("reuseport".parse().unwrap()).workers(workers);
    let (stop, stopped) = oneshot::channel::<()>();
    thread::scope(|threads| {
        let first = threads.spawn(|| run(&path, &options(2), std::future::pending()));
        wait_until(|| path.exists());
        let second = threads.spawn(|| run(&path, &options(4), async { drop(stopped.await) }));
        // Both serve for a moment.
        wait_until(|| answer(&mut connect(address.parse().unwrap())) == 4);
        first.join().unwrap();
        drop(stop);
        second.join().unwrap();
    });
}

/// Those that wait while another one replaces their predecessor ask its successor.
#[test]
fn successors_that_start_together_replace_each_other() {
    let socket = common::group("tcp", "shared".parse().unwrap(), 1);
    let options = Group::at(&common::port_of(&socket).to_string()).unwrap().workers(2);
    drop(socket);
    for _ in 0..5 {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("hand-over");
        let (stop, stopped) = watch::channel(false);
        let until = || async {
            let mut stopped = stopped.clone();
            drop(stopped.wait_for(|stopped| *stopped).await);
        };
        thread::scope(|threads| {
            let first = threads.spawn(|| run(&path, &options, until()));
            wait_until(|| path.exists());
            let all: Vec<_> = (0..4).map(|_| threads.spawn(|| run(&path, &options, until()))).collect();
            first.join().unwrap();
            wait_until(|| all.iter().filter(|successor| successor.is_finished()).count() == 3);
            stop.send_replace(true);
            all.into_iter().for_each(|successor| successor.join().unwrap());
        });
    }
}

#[test]
fn the_file_of_a_unix_socket_stays_until_the_last_one_ends() {
    let directory = TempDir::new().unwrap();
    let (path, file) = (directory.path().join("hand-over"), directory.path().join("socket"));
    let options = Group::at(&format!("unix://{}", file.display())).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    thread::scope(|threads| {
        let first = threads.spawn(|| run(&path, &options.clone().workers(2), std::future::pending()));
        wait_until(|| path.exists());
        let second = threads.spawn(|| run(&path, &options.clone().workers(3), async { drop(stopped.await) }));
        first.join().unwrap();
        let mut byte = [0];
        UnixStream::connect(&file).unwrap().read_exact(&mut byte).unwrap();
        assert_eq!(byte, [3]);
        drop(stop);
        second.join().unwrap();
    });
    assert!(!file.exists());
}
