//! If this fails, a killed server disturbs the application, or messages are lost or doubled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Setup};
use bbq_client::{OnFull, Sender};

const THREADS: u64 = 4;
/// As in seed 002.
const MESSAGE_BYTES: usize = 4096;
const KILLS: u64 = 6;
/// Messages that the threads send between two kills.
const BETWEEN: u64 = 4000;

fn message(thread: u64, number: u64) -> Vec<u8> {
    let mut message = format!("{thread} {number} ").into_bytes();
    message.resize(MESSAGE_BYTES, b'a' + (number % 26) as u8);
    message
}

#[test]
fn four_threads_of_4_kib_messages_over_six_kills() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let first = setup.start();
    let sender = Sender::builder()
        .server(format!("bbq://{}", setup.address(0)).parse().expect("an address"))
        .on_full(OnFull::Block(Some(PATIENCE)))
        // Small, so that it is full while the server is away.
        .queue_bytes_max(4 * 1024 * 1024)
        .start()
        .expect("it starts");
    let stop = AtomicBool::new(false);
    let (server, counts) = std::thread::scope(|scope| {
        let mut server = first;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (sender, stop) = (&sender, &stop);
                scope.spawn(move || {
                    let mut count = 0;
                    while !stop.load(Ordering::Relaxed) {
                        sender.send(&message(thread, count)).expect("no send fails");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for _ in 0..KILLS {
            // Some are acknowledged, too: otherwise a kill might meet no message.
            let next = sender.counters().acknowledged + BETWEEN;
            while sender.counters().acknowledged < next {
                std::thread::yield_now();
            }
            server.kill();
            // The application goes on until its queue is full.
            while sender.counters().queued_bytes < 3 * 1024 * 1024 {
                std::thread::yield_now();
            }
            server = setup.start();
        }
        stop.store(true, Ordering::Relaxed);
        let counts = threads.into_iter().map(|thread| thread.join().expect("no send fails"));
        (server, counts.collect::<Vec<u64>>())
    });
    let counters = sender.close(PATIENCE).expect("everything is acknowledged");
    let total: u64 = counts.iter().sum();
    assert_eq!((counters.accepted, counters.acknowledged), (total, total), "{counters:?}");
    assert_eq!(counters.dropped.total(), 0, "{counters:?}");
    assert!(counters.reconnects >= KILLS, "{counters:?}");
    server.wait_delivered(total);
    assert_eq!(server.stop(), Some(0));
    // Each connection may come to another worker, so only that each message is there once is checked.
    let mut seen: Vec<Vec<u8>> = counts.iter().map(|&count| vec![0; count as usize]).collect();
    for line in setup.written().split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, |&byte| byte == b' ');
        let mut number = || -> u64 {
            let word = std::str::from_utf8(words.next().expect("a word")).expect("text");
            word.parse().expect("a number")
        };
        let (thread, count) = (number(), number());
        assert!(line == message(thread, count), "thread {thread}, message {count} is damaged");
        seen[thread as usize][count as usize] += 1;
    }
    assert!(seen.iter().flatten().all(|&times| times == 1));
}

#[test]
fn a_server_that_comes_back_is_found_whatever_it_takes() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let sender = Sender::builder()
        .server(format!("bbq://{}", setup.address(0)).parse().expect("an address"))
        .start()
        .expect("it starts without a server");
    sender.send(b"before").expect("there is room");
    let begun = Instant::now();
    let unanswered = loop {
        let error = sender.flush(Duration::from_millis(50)).expect_err("nobody is there").to_string();
        // Once it has tried.
        if error.contains("refused") || begun.elapsed() > PATIENCE {
            break error;
        }
    };
    let server = format!("bbq://{}: ", setup.address(0));
    assert!(
        unanswered.starts_with("1 message is not acknowledged") && unanswered.contains(&server),
        "{unanswered}"
    );
    let server = setup.start();
    sender.flush(PATIENCE).expect("it is found");
    server.wait_delivered(1);
}
