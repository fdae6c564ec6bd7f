//! The example `sqlite` as a process that is killed again and again: each message is in its table once, in the order it was sent.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use bbq_client::Sender;
use rusqlite::{Connection, OpenFlags};

use crate::support::{PATIENCE, wait_until};

const KILLS: u64 = 5;
/// Messages before each kill: as many come into the table within some ten milliseconds.
const MESSAGES: u64 = 4000;

struct Example {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Example {
    /// Starts the example, which cargo builds with the tests, beside their own directory. Returns when it listens, with the
    /// address of its listener for lines.
    fn start(directory: &Path) -> (Example, String) {
        let test = std::env::current_exe().unwrap();
        let program = test.parent().and_then(Path::parent).unwrap().join("examples/sqlite");
        assert!(program.exists(), "cargo build --release -p bbq-server --examples");
        let mut child = Command::new(program)
            .args([directory.join("events.db"), directory.join("spool")])
            .arg("lines+tcp://127.0.0.1:0?name=lines")
            .arg(format!("bbq+unix://{}", directory.join("bbq.sock").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut example = Example { child, output };
        let lines = example.listening();
        example.listening();
        (example, lines)
    }

    fn listening(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let address =
            line.trim_end().strip_prefix("listening on ").and_then(|address| address.split("://").nth(1));
        address.unwrap_or_else(|| panic!("it said {line:?}")).to_owned()
    }

    /// Sends a signal by its name, and waits for the end.
    fn end(&mut self, signal: rustix::process::Signal) -> bool {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().success()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _ended_before = self.child.wait();
    }
}

fn rows(database: &Connection) -> u64 {
    database.query_row("SELECT count(*) FROM events WHERE listener != 'lines'", [], |row| row.get(0)).unwrap()
}

#[test]
fn each_message_is_in_the_table_once_although_the_server_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    println!("seed {random}");
    let (mut example, _) = Example::start(directory.path());
    let path = directory.path().join("events.db");
    let database = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let server = format!("bbq+unix://{}", directory.path().join("bbq.sock").display()).parse().unwrap();
    let sender = Sender::builder().server(server).batch_bytes(4096).start().unwrap();
    let mut sent = 0;
    for _kill in 0..KILLS {
        let before = rows(&database);
        for number in sent..sent + MESSAGES {
            sender.send(number.to_string().as_bytes()).unwrap();
        }
        sent += MESSAGES;
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let kill_at = before + u64::from(random >> 16) % (sent - before);
        wait_until("messages come into the table", || rows(&database) >= kill_at);
        example.end(rustix::process::Signal::KILL);
        example = Example::start(directory.path()).0;
    }
    sender.flush(PATIENCE).unwrap();
    wait_until("all of them are there", || rows(&database) >= sent);
    assert!(example.end(rustix::process::Signal::TERM), "it does not end in order");
    // Started once more: what a stop leaves behind comes now, and would be twice.
    let (mut example, lines) = Example::start(directory.path());
    TcpStream::connect(lines).unwrap().write_all(b"a line\n").unwrap();
    wait_until("the line is there", || {
        let line =
            database.query_row("SELECT message FROM events WHERE listener = 'lines'", [], |row| row.get(0));
        line == Ok(b"a line".to_vec())
    });
    assert!(example.end(rustix::process::Signal::TERM), "it does not end in order");
    let mut select =
        database.prepare("SELECT message FROM events WHERE listener != 'lines' ORDER BY rowid").unwrap();
    let found =
        select.query_map([], |row| row.get(0)).unwrap().map(|row: rusqlite::Result<Vec<u8>>| row.unwrap());
    let found: Vec<String> = found.map(|row| String::from_utf8(row).unwrap()).collect();
    assert!(found.iter().map(|row| row.parse()).eq((0..sent).map(Ok)), "{} rows of {sent}", found.len());
}
