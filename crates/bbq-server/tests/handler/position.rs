//! A handler that keeps its position with its messages, as a database would, in memory that outlives the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bbq_server::{Handler, HandlerError, Messages, Position};

use crate::support::{builder, delivered, problem, send, wait_until};

#[derive(Default)]
struct Table {
    rows: Vec<String>,
    positions: HashMap<u32, Position>,
}

/// Commits to a table, and then fails now and then: as if the connection broke before the answer came.
struct Flaky {
    table: Arc<Mutex<Table>>,
    calls: u64,
}

impl Flaky {
    fn new(table: &Arc<Mutex<Table>>) -> Flaky {
        Flaky { table: Arc::clone(table), calls: 0 }
    }
}

impl Handler for Flaky {
    fn handle(&mut self, messages: Messages<'_>) -> Result<(), HandlerError> {
        self.calls += 1;
        let mut table = self.table.lock().unwrap();
        let mut done = 0;
        for message in messages {
            let text = String::from_utf8(message.bytes.to_vec())?;
            if text == "poison" {
                return Err(HandlerError::refuse(&message, "poison"));
            }
            table.rows.push(text);
            table.positions.insert(message.lane, message.position);
            done += 1;
            // Not before some of them are in: what fails at once never gets on.
            if self.calls % 3 == 1 && done == 5 {
                return Err(HandlerError::retry("on purpose"));
            }
        }
        if self.calls % 3 == 2 { Err(HandlerError::retry("on purpose")) } else { Ok(()) }
    }

    fn position(&mut self, lane: u32) -> Result<Option<Position>, HandlerError> {
        Ok(self.table.lock().unwrap().positions.get(&lane).copied())
    }
}

#[test]
fn what_is_committed_does_not_come_again_after_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let table = Arc::new(Mutex::new(Table::default()));
    for round in 0..3 {
        let server = builder(directory.path()).handler("table", Flaky::new(&table)).start().unwrap();
        let lines = (0..100).map(|number| match number % 30 {
            29 => "poison".to_owned(),
            _ => format!("{round} {number}"),
        });
        send(&server, lines);
        wait_until("delivery", || delivered(&server) == (round + 1) * 97);
        server.stop();
    }
    let expected = (0..3).flat_map(|round| {
        (0..100).filter(|number| number % 30 != 29).map(move |number| format!("{round} {number}"))
    });
    assert_eq!(table.lock().unwrap().rows, expected.collect::<Vec<_>>());
}

/// The table is of another queue: its positions say nothing about this one.
#[test]
fn positions_of_another_data_directory_are_ignored() {
    let table = Arc::new(Mutex::new(Table::default()));
    for round in 0..2 {
        let directory = tempfile::tempdir().unwrap();
        let server = builder(directory.path()).handler("table", Flaky::new(&table)).start().unwrap();
        send(&server, (0..10).map(|number| format!("{round} {number}")));
        wait_until("delivery", || delivered(&server) == 10);
    }
    assert_eq!(table.lock().unwrap().rows.len(), 20);
}

/// Rolls back what came before a message that it refuses.
struct RollsBack;

impl Handler for RollsBack {
    fn handle(&mut self, messages: Messages<'_>) -> Result<(), HandlerError> {
        match messages.into_iter().find(|message| message.bytes == b"poison") {
            Some(message) => Err(HandlerError::refuse(&message, "poison")),
            None => Ok(()),
        }
    }

    fn position(&mut self, lane: u32) -> Result<Option<Position>, HandlerError> {
        Ok(FIRST.lock().unwrap().filter(|position| position.lane() == lane))
    }
}

static FIRST: Mutex<Option<Position>> = Mutex::new(None);

#[test]
fn a_refusal_does_not_lose_what_was_rolled_back_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let keeps = |messages: Messages<'_>| -> Result<(), HandlerError> {
        *FIRST.lock().unwrap() = Some(messages.position());
        Ok(())
    };
    let server = builder(directory.path()).handler("table", keeps).start().unwrap();
    send(&server, ["first".to_owned()]);
    wait_until("delivery", || delivered(&server) == 1);
    server.stop();
    let server = builder(directory.path())
        .set("drain_timeout_seconds", "0")
        .handler("table", RollsBack)
        .start()
        .unwrap();
    send(&server, ["second", "poison", "third"].map(str::to_owned));
    wait_until("it is told", || problem(&server).is_some_and(|why| why.contains("it must commit")));
    assert_eq!(delivered(&server), 1);
}
