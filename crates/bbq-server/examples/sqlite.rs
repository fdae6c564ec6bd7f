//! Messages into a table of SQLite, each exactly once, across any crash: a message and the position behind it are committed in one
//! transaction, so the table itself says where to go on.
//!
//! ```sh
//! cargo run --release -p bbq-server --example sqlite -- /tmp/events.db /tmp/events-spool
//! ```
//!
//! It listens for lines on port 7714 and for bbq clients on 7700, or by the SPECs that follow. SIGTERM or Ctrl-C ends it.

use std::error::Error;
use std::path::Path;
use std::time::UNIX_EPOCH;

use bbq_server::{Handler, HandlerError, Messages, Position, Server};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS events (received_ns INTEGER, listener TEXT, stream TEXT, sequence INTEGER, message BLOB);
    CREATE TABLE IF NOT EXISTS positions (lane INTEGER PRIMARY KEY, position TEXT NOT NULL);
";

/// Writes to the table.
struct Events {
    database: Connection,
}

impl Events {
    fn open(path: &Path) -> rusqlite::Result<Events> {
        let database = Connection::open(path)?;
        // A commit is on disk when it returns: the server may delete what is handled.
        database.pragma_update(None, "journal_mode", "wal")?;
        database.pragma_update(None, "synchronous", "full")?;
        database.execute_batch(SCHEMA)?;
        Ok(Events { database })
    }

    fn write(transaction: &Transaction<'_>, messages: Messages<'_>) -> Result<(), Box<dyn Error>> {
        let mut insert = transaction.prepare_cached("INSERT INTO events VALUES (?, ?, ?, ?, ?)")?;
        for message in messages {
            let received_ns = i64::try_from(message.received.duration_since(UNIX_EPOCH)?.as_nanos())?;
            let sequence = i64::try_from(message.sequence)?;
            insert.execute(params![
                received_ns,
                message.listener,
                message.stream.to_string(),
                sequence,
                message.bytes
            ])?;
        }
        let mut update = transaction.prepare_cached("INSERT OR REPLACE INTO positions VALUES (?, ?)")?;
        update.execute(params![messages.lane(), messages.position().to_string()])?;
        Ok(())
    }
}

impl Handler for Events {
    fn handle(&mut self, messages: Messages<'_>) -> Result<(), HandlerError> {
        // An error rolls back the transaction, and the messages come again.
        let transaction = self.database.transaction()?;
        Events::write(&transaction, messages).map_err(HandlerError::retry)?;
        transaction.commit()?;
        Ok(())
    }

    fn position(&mut self, lane: u32) -> Result<Option<Position>, HandlerError> {
        let query = "SELECT position FROM positions WHERE lane = ?";
        let position: Option<String> = self.database.query_row(query, [lane], |row| row.get(0)).optional()?;
        Ok(position.map(|text| text.parse()).transpose()?)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, spool, listen @ ..] = &arguments[..] else {
        return Err("usage: sqlite DATABASE SPOOL [SPEC...]".into());
    };
    let mut builder = Server::builder()
        .data(spool)
        // A transaction takes what has collected in a lane: fewer lanes, fewer transactions.
        .workers(2)
        .handler("events", Events::open(Path::new(database))?)
        .stop_on_signals();
    let default = ["lines+tcp://127.0.0.1:7714", "bbq+tcp://127.0.0.1:7700"].map(str::to_owned);
    for spec in if listen.is_empty() { &default[..] } else { listen } {
        builder = builder.listen(spec);
    }
    let server = builder.start()?;
    for address in server.addresses() {
        println!("listening on {address}");
    }
    if server.wait() { Ok(()) } else { Err("the server failed".into()) }
}
