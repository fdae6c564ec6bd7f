//! Worker threads that serve a group: each connection gets its worker's number and is closed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bbq_listen::{ACCEPTS_PER_BATCH_MAX, AsyncListener, Group, OpenCount, WorkerListener, install_heartbeat};
use tokio::sync::{Notify, watch};

/// Longer than anything takes on a busy machine.
pub(crate) const LOST: Duration = Duration::from_secs(20);
/// How long a blocked worker does nothing.
pub(crate) const BLOCKED: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Serving {
    workers: Vec<Working>,
}

struct Working {
    stop: watch::Sender<bool>,
    block: Arc<Notify>,
    /// How often it has begun to block.
    blocked: watch::Receiver<u64>,
    thread: JoinHandle<u64>,
}

impl Serving {
    pub(crate) fn start(group: &Group) -> Serving {
        let mut serving = Serving::default();
        serving.add(group, 0);
        serving
    }

    /// Starts a worker for every worker from this one on, and waits until they serve.
    pub(crate) fn add(&mut self, group: &Group, from: usize) {
        let ready = Arc::new(Barrier::new(group.workers() - from + 1));
        for worker_listener in group.worker_listeners().skip(from) {
            let (stop, block) = (watch::Sender::new(false), Arc::new(Notify::new()));
            let (told, told_to_block, ready) = (stop.subscribe(), Arc::clone(&block), Arc::clone(&ready));
            let (blocks, blocked) = watch::channel(0);
            let thread =
                std::thread::spawn(move || serve(worker_listener, told, &told_to_block, &blocks, &ready));
            self.workers.push(Working { stop, block, blocked, thread });
        }
        ready.wait();
    }

    /// The worker blocks its thread, from its next turn on.
    pub(crate) fn block(&self, worker: usize) {
        self.workers[worker].block.notify_one();
    }

    /// The worker blocks its thread now.
    pub(crate) fn block_now(&mut self, worker: usize) {
        let Working { block, blocked, .. } = &mut self.workers[worker];
        blocked.mark_unchanged();
        block.notify_one();
        while !blocked.has_changed().unwrap() {
            std::thread::yield_now();
        }
    }

    /// Ends the workers from this one on; answers the connections that each served.
    pub(crate) fn end_from(&mut self, from: usize) -> Vec<u64> {
        let ending = self.workers.split_off(from);
        ending.iter().for_each(|worker| worker.stop.send(true).unwrap());
        ending.into_iter().map(|worker| worker.thread.join().unwrap()).collect()
    }

    /// Ends the first worker; answers the connections that it served.
    pub(crate) fn end_first(&mut self) -> u64 {
        let first = self.workers.remove(0);
        first.stop.send(true).unwrap();
        first.thread.join().unwrap()
    }

    /// Ends all.
    pub(crate) fn stop(mut self) -> Vec<u64> {
        self.end_from(0)
    }
}

#[expect(clippy::disallowed_methods, reason = "a worker that blocks is what the tests are about")]
fn serve(
    worker_listener: WorkerListener,
    mut stop: watch::Receiver<bool>,
    block: &Notify,
    blocks: &watch::Sender<u64>,
    ready: &Barrier,
) -> u64 {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    install_heartbeat(&mut builder);
    builder.enable_all().build().unwrap().block_on(async {
        let worker = worker_listener.worker() as u8;
        let mut listener = AsyncListener::new(worker_listener).unwrap();
        ready.wait();
        let mut served = 0;
        // Open until the end of the worker, for those that count.
        let mut kept: Vec<(TcpStream, Option<OpenCount>)> = Vec::new();
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return served,
                () = block.notified() => {
                    blocks.send_modify(|times| *times += 1);
                    std::thread::sleep(BLOCKED);
                }
                turn = listener.accept_batch(ACCEPTS_PER_BATCH_MAX, |accepted| {
                    served += 1;
                    let mut stream = TcpStream::from(accepted.stream);
                    stream.write_all(&[worker]).unwrap();
                    if accepted.open.is_some() {
                        kept.push((stream, accepted.open));
                    }
                }) => { turn.unwrap(); }
            }
        }
    })
}

/// Connects and waits for the answer: who served it, and how long that took.
pub(crate) fn ask(to: SocketAddr) -> (u8, Duration) {
    let start = Instant::now();
    let mut stream = TcpStream::connect(to).expect("nobody is refused");
    (answer(&mut stream), start.elapsed())
}

pub(crate) fn answer(stream: &mut TcpStream) -> u8 {
    stream.set_read_timeout(Some(LOST)).unwrap();
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(1) => return byte[0],
            Ok(_) => panic!("closed without an answer"),
            // Reads with a time-out are not taken up again by the kernel, signal(7).
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("no answer: {error}"),
        }
    }
}
