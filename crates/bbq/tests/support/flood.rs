//! More messages than all buffers on their way can hold, and checks of the output.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use bbq_wire::StreamId;
use serde_json::Value;

use super::session::{Answer, Session, batch};
use super::{PATIENCE, Server};

/// Bytes of a message with its line feed.
pub const MESSAGE_BYTES: usize = 1000;
/// Enough to fill everything between a sender and a spool that takes nothing: both buffers of the connection (4 + 6 MiB at most, as
/// Linux tunes them), the worker's batch, the lane's two buffers (8 MiB each), and the disks of these tests.
pub const MESSAGES: u64 = 60_000;
/// Messages of one batch.
const BATCH: u64 = 50;

/// `kind 00000007 xxx...`
pub fn message(kind: &str, number: u64) -> String {
    format!("{kind} {number:08} {:x<1$}", "", MESSAGE_BYTES - kind.len() - 11)
}

/// Sends `MESSAGES` lines, numbered from 1, over one connection, counting them in `sent`.
pub fn lines(address: SocketAddr, kind: &str, sent: &AtomicU64) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    for number in 1..=MESSAGES {
        stream.write_all((message(kind, number) + "\n").as_bytes()).expect("it reads");
        sent.store(number, Ordering::Release);
    }
}

/// Sends the missing numbers up to `MESSAGES` as batches; `acknowledged` follows the acknowledgements. Ends when everything is
/// acknowledged, or with the connection.
pub fn batches(address: SocketAddr, id: StreamId, acknowledged: &AtomicU64) {
    let (mut session, last) = Session::open(address, id);
    let known = acknowledged.load(Ordering::Acquire);
    assert!(last >= known, "{known} was acknowledged, and the server knows {last}");
    acknowledged.store(last, Ordering::Release);
    let mut stream = session.stream.try_clone().expect("a descriptor");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for first in (last + 1..=MESSAGES).step_by(BATCH as usize) {
                let numbers = first..=MESSAGES.min(first + BATCH - 1);
                let messages: Vec<String> = numbers.map(|number| message("bbq", number)).collect();
                if stream.write_all(&batch(id, first, &messages)).is_err() {
                    return;
                }
            }
        });
        while acknowledged.load(Ordering::Acquire) < MESSAGES {
            match session.next() {
                Answer::Ack(sequence) => acknowledged.store(sequence, Ordering::Release),
                Answer::Closed => return,
                other => panic!("{other:?}"),
            }
        }
    });
}

/// Waits until the server takes no more messages. Afterwards the caller checks how much was sent: a server must not read on when it
/// cannot store.
pub fn wait_standstill(server: &Server<'_>) -> Value {
    const LOOKS: u32 = 25;
    let mut same = 0;
    let mut before = None;
    loop {
        let status = server.status();
        let received = status["ledger"]["received"].as_u64();
        same = if received == before { same + 1 } else { 0 };
        before = received;
        if same == LOOKS {
            return status;
        }
    }
}

/// Counts how often each number of a kind is in an output.
pub fn tally(output: &[u8], kind: &str) -> BTreeMap<u64, u64> {
    let mut tally = BTreeMap::new();
    for line in String::from_utf8_lossy(output).lines() {
        let mut words = line.split(' ');
        if words.next() == Some(kind) {
            let number: u64 =
                words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(line, message(kind, number), "a message is torn");
            *tally.entry(number).or_default() += 1;
        }
    }
    tally
}

/// Checks that every number from 1 on is there once.
pub fn assert_all_once(output: &[u8], kind: &str) {
    let tally = tally(output, kind);
    let missing: Vec<u64> = (1..=MESSAGES).filter(|number| !tally.contains_key(number)).take(10).collect();
    let doubled: Vec<_> = tally.iter().filter(|(_, count)| **count > 1).take(10).collect();
    assert!(
        missing.is_empty() && doubled.is_empty(),
        "{kind}: missing {missing:?}..., doubled {doubled:?}..."
    );
}
