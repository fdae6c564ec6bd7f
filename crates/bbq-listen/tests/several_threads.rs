//! If this fails, clients of a server on a tokio runtime with several threads wait for a task that blocks one of the threads.
//!
//! The test itself ends the block, after everybody else was answered: it needs no clock.
#![cfg(feature = "tokio")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bbq_listen::{AsyncListener, STALL_THRESHOLD_DEFAULT, StallMonitor};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

/// Longer than anything takes on a busy machine.
const LOST: Duration = Duration::from_secs(20);
/// Each time another thread may be the one that waits for I/O.
const ROUNDS: usize = 10;
/// As many as a runtime may have on the smallest machine, and still have a free one.
const THREADS: usize = 2;

/// Blocks a thread of the server until the test ends it, or fails.
#[derive(Clone)]
struct Block {
    begun: mpsc::SyncSender<()>,
    end: Arc<Mutex<mpsc::Receiver<()>>>,
}

/// The test's side of a [`Block`]. Dropped before the runtime, whose end waits for its threads.
struct Blocked {
    begun: mpsc::Receiver<()>,
    end: mpsc::SyncSender<()>,
}

fn block() -> (Block, Blocked) {
    let (begin, begun) = mpsc::sync_channel(1);
    let (end, ended) = mpsc::sync_channel(1);
    (Block { begun: begin, end: Arc::new(Mutex::new(ended)) }, Blocked { begun, end })
}

impl Block {
    fn wait(&self) {
        self.begun.send(()).unwrap();
        // An error means that the test failed.
        let _ = self.end.lock().unwrap().recv();
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().unwrap()
}

fn monitor<'a>(groups: impl IntoIterator<Item = &'a bbq_listen::Group>) -> StallMonitor {
    StallMonitor::start(groups, STALL_THRESHOLD_DEFAULT, drop).unwrap()
}

/// Answers every byte with itself, and blocks at a `b`.
async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, block: Block) {
    let mut byte = [0];
    while stream.read_exact(&mut byte).await.is_ok() {
        if byte == *b"b" {
            block.wait();
        }
        if stream.write_all(&byte).await.is_err() {
            return;
        }
    }
}

struct Client(TcpStream);

impl Client {
    fn new(to: SocketAddr) -> Client {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(LOST)).unwrap();
        Client(stream)
    }

    fn ask(&mut self) {
        self.0.write_all(b"x").unwrap();
        self.answered(b'x');
    }

    fn answered(&mut self, byte: u8) {
        let mut answer = [0];
        self.0.read_exact(&mut answer).expect("an answer although a task blocks a thread");
        assert_eq!(answer, [byte]);
    }
}

/// A client with an open connection and new ones are answered while a task blocks.
fn nobody_waits(to: SocketAddr, blocked: &Blocked) {
    let mut open = Client::new(to);
    for _ in 0..ROUNDS {
        open.ask();
        let mut blocking = Client::new(to);
        blocking.0.write_all(b"b").unwrap();
        blocked.begun.recv_timeout(LOST).unwrap();
        open.ask();
        Client::new(to).ask();
        open.ask();
        blocked.end.send(()).unwrap();
        blocking.answered(b'b');
    }
}

#[test]
fn nobody_waits_for_a_task_that_blocks_in_a_runtime_of_several_threads() {
    let group = common::group("tcp", "auto".parse().unwrap(), 1);
    let _monitor = monitor([&group]);
    let runtime = runtime();
    let (block, blocked) = block();
    let listener = group.worker_listener(0).unwrap();
    runtime.spawn(async move {
        let mut listener = AsyncListener::new(listener).unwrap();
        loop {
            let (stream, _peer) = listener.accept().await.unwrap();
            tokio::spawn(converse(stream, block.clone()));
        }
    });
    nobody_waits(common::port_of(&group), &blocked);
}

/// The monitor serves listeners of others, too.
#[test]
fn nobody_waits_in_a_watched_runtime_with_a_listener_of_tokio() {
    let monitor = monitor([]);
    let runtime = runtime();
    let (block, blocked) = block();
    monitor.watch_runtime(runtime.handle());
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let to = listener.local_addr().unwrap();
    runtime.spawn(async move {
        loop {
            let (stream, _peer) = listener.accept().await.unwrap();
            tokio::spawn(converse(stream, block.clone()));
        }
    });
    nobody_waits(to, &blocked);
}

/// Another listener of the group takes what waits for the blocked one.
#[test]
fn nobody_waits_for_a_task_that_blocks_between_two_accepts() {
    for word in ["reuseport", "shared"] {
        let group = common::group("tcp", word.parse().unwrap(), 2);
        let _monitor = monitor([&group]);
        let runtime = runtime();
        let (block, blocked) = block();
        for listener in group.worker_listeners() {
            let block = block.clone();
            runtime.spawn(async move {
                let mut listener = AsyncListener::new(listener).unwrap();
                loop {
                    let (stream, _peer) = listener.accept().await.unwrap();
                    // One connection after the other.
                    converse(stream, block.clone()).await;
                }
            });
        }
        let to = common::port_of(&group);
        let mut blocking = Client::new(to);
        blocking.0.write_all(b"b").unwrap();
        blocked.begun.recv_timeout(LOST).unwrap();
        for _ in 0..20 {
            Client::new(to).ask();
        }
        blocked.end.send(()).unwrap();
        blocking.answered(b'b');
    }
}
