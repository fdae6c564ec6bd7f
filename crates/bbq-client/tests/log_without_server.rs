//! If this fails, a program that logs waits for a server that is away, or a record is neither taken nor counted.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fmt;
use std::time::Duration;

use bbq_client::{LogBackend, Sender};
use log::{Level, Log, Record};

/// The smallest queue there is: it is full soon.
const QUEUE_BYTES: usize = 64 * 1024;

fn backend() -> LogBackend {
    let sender = LogBackend::sender().server("bbq://127.0.0.1:1".parse().expect("an address"));
    let sender = sender.queue_bytes_max(QUEUE_BYTES).close_timeout(Duration::ZERO).start().expect("a sender");
    LogBackend::new(sender)
}

fn log(backend: &LogBackend, target: &str, text: &dyn fmt::Display) {
    backend.log(&Record::builder().target(target).level(Level::Info).args(format_args!("{text}")).build());
}

/// Records that the sender was given.
fn given(sender: &Sender) -> u64 {
    let counters = sender.counters();
    counters.accepted + counters.dropped.total()
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    const RECORDS: u64 = 10_000;
    let backend = backend();
    let guard = backend.guard().timeout(Duration::ZERO);
    for number in 0..RECORDS {
        log(&backend, "app", &number);
    }
    let counters = guard.sender().counters();
    assert!(counters.accepted > 0 && counters.dropped.full > 0, "{counters:?}");
    assert_eq!(given(guard.sender()), RECORDS);
}

#[test]
fn records_of_the_client_itself_are_left_out() {
    let backend = backend();
    let guard = backend.guard().timeout(Duration::ZERO);
    for target in ["bbq_client", "bbq_client::outlet", "bbq_clients"] {
        log(&backend, target, &"text");
    }
    assert_eq!(given(guard.sender()), 1);
}

#[test]
fn a_record_may_be_made_while_another_is_formatted() {
    struct Logs<'a>(&'a LogBackend);
    impl fmt::Display for Logs<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            log(self.0, "app", &"inner");
            f.write_str("outer")
        }
    }
    let backend = backend();
    let guard = backend.guard().timeout(Duration::ZERO);
    log(&backend, "app", &Logs(&backend));
    assert_eq!(given(guard.sender()), 2);
}
