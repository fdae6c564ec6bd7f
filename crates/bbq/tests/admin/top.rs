//! If this fails, `bbq top` shows other numbers than `bbq status`, or does not come back to a server that was away.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::process::{Command, Stdio};

use serde_json::Value;

use super::terminal::Terminal;
use crate::support::{BBQ, Server, Setup, refused_start};

const LISTEN: [&str; 2] =
    ["lines+tcp://127.0.0.1:{0}?name=app&message_bytes_max=100", "syslog+udp://127.0.0.1:{1}?name=routers"];

fn setup() -> Setup {
    let mut setup = Setup::new(&LISTEN).with(&["--workers", "2"]);
    setup.set_sinks(&["file:{dir}/out.log?name=archive", "null:?name=metrics"]);
    setup
}

/// The words of the line that begins with this name, behind the name.
fn row<'a>(screen: &'a str, name: &str) -> Vec<&'a str> {
    let begins =
        |line: &&str| line.strip_prefix(['!', ' ']).is_some_and(|line| line.trim_start().starts_with(name));
    let line = screen.lines().find(begins).unwrap_or_else(|| panic!("no {name}:\n{screen}"));
    line.split_once(name).expect("a name").1.split_whitespace().collect()
}

/// The numbers of the ledger: received = delivered + queued + dropped.
fn terms(screen: &str) -> Vec<u64> {
    let line = screen.lines().find(|line| line.contains(" = ") && line.contains(" + ")).expect("a ledger");
    let number = |word: &str| word.replace(',', "").parse().ok();
    line.split_whitespace().filter_map(number).collect()
}

fn assert_same_numbers(screen: &str, status: &Value) {
    let sum = |dropped: &Value| {
        dropped.as_object().expect("reasons").values().filter_map(Value::as_u64).sum::<u64>()
    };
    let ledger = &status["ledger"];
    let number = |value: &Value| value.as_u64().expect("a number");
    let told = [
        number(&ledger["received"]),
        number(&ledger["delivered"]),
        number(&ledger["queued"]),
        sum(&ledger["dropped"]),
    ];
    assert_eq!(terms(screen), told, "{screen}\n{status:#}");
    for listener in status["listeners"].as_array().expect("listeners") {
        let name = listener["name"].as_str().expect("a name");
        let row_of = row(screen, name);
        // Their rates are 0/s.
        assert_eq!(row_of[1], listener["ledger"]["received"].to_string(), "{screen}");
        assert_eq!(row_of[2], sum(&listener["ledger"]["dropped"]).to_string(), "{screen}");
        for socket in listener["sockets"].as_array().expect("sockets") {
            let row = row(screen, &format!("{name} #{}", socket["index"]));
            assert_eq!(
                [row[0], row[1]],
                [socket["worker"].to_string(), socket["accepted"].to_string()],
                "{screen}"
            );
        }
    }
    for worker in status["workers"].as_array().expect("workers") {
        let index = number(&worker["index"]) as usize;
        let row = row(screen, &format!("worker {index}"));
        assert_eq!(row[1], worker["connections"].to_string(), "{screen}");
        assert_eq!(row[6], status["spool"]["lanes"][index]["records"].to_string(), "{screen}");
    }
    for sink in status["sinks"].as_array().expect("sinks") {
        let row = row(screen, sink["name"].as_str().expect("a name"));
        // Behind its state, `caught up`, and its rate.
        assert_eq!(row[3], sink["queued"].to_string(), "{screen}");
        assert!(row.contains(&&*sink["delivered"].to_string()), "{screen}");
    }
}

/// 700 messages that are delivered, and one that is too large.
fn send(server: &Server<'_>) -> Value {
    server.send(0, "a message\n".repeat(700).as_bytes());
    server.send(0, format!("{}\n", "x".repeat(200)).as_bytes());
    server.wait_status("the messages", |status| {
        let at_rest =
            status["workers"].as_array().expect("workers").iter().all(|worker| worker["connections"] == 0);
        at_rest
            && status["ledger"]["received"] == 701
            && status["sinks"][0]["delivered"] == 700
            && status["ledger"]["queued"] == 0
    })
}

#[test]
fn the_numbers_are_those_of_the_status() {
    let setup = setup();
    let server = setup.start();
    let top = Terminal::top(&setup, &["--interval", "0.2"]);
    top.wait("the server", |screen| screen.contains(&format!("pid {}", server.pid())));
    top.resize(40, 100);
    let status = send(&server);
    // A rate of nothing: both answers of the frame came after the messages.
    let screen = top.wait("the messages", |screen| {
        let at_rest = "in 0/s (0 B/s)  out 0/s by all, 0/s by any  dropped 0/s";
        let is_at_rest = screen.lines().any(|line| line.trim_end() == at_rest);
        is_at_rest && terms(screen).first() == Some(&701)
    });
    assert_same_numbers(&screen, &status);
    assert!(screen.contains("balances"), "{screen}");
    let (host, data) = (status["host"].as_str().expect("a name"), status["data"].as_str().expect("a path"));
    assert!(
        screen.lines().next().is_some_and(|title| title.contains(&format!("  {host}:{data}  "))),
        "{screen}"
    );
    // The same as text.
    let once = Command::new(BBQ)
        .args(["top", "--once", "--interval", "0.2", "--admin", &setup.admin()])
        .env("COLUMNS", "100")
        .output();
    let once = once.expect("it runs");
    assert!(once.status.success() && !once.stdout.contains(&0x1b), "{once:?}");
    assert_same_numbers(&String::from_utf8(once.stdout).expect("text"), &status);
}

#[test]
fn json_is_that_of_the_status_at_each_interval() {
    use std::io::{BufRead as _, BufReader};
    let setup = setup();
    let server = setup.start();
    let status = send(&server);
    let once = Command::new(BBQ)
        .args(["top", "--once", "--json", "--admin", &setup.admin()])
        .output()
        .expect("it runs");
    let once: Value = serde_json::from_slice(&once.stdout).expect("one document");
    let mut command = Command::new(BBQ);
    command.args(["top", "--json", "--interval", "0.2", "--admin", &setup.admin()]).stdout(Stdio::piped());
    let mut top = crate::support::program::Program::start(&mut command);
    let lines = BufReader::new(top.stdout.take().expect("piped")).lines();
    let lines: Vec<Value> =
        lines.take(2).map(|line| serde_json::from_str(&line.expect("a line")).expect("a document")).collect();
    for answer in lines.iter().chain([&once]) {
        for part in ["ledger", "sinks", "problems", "findings", "pid"] {
            assert_eq!(answer[part], status[part]);
        }
    }
}

#[test]
fn a_server_that_goes_is_told_and_its_successor_is_shown() {
    let setup = setup();
    let server = setup.start();
    let top = Terminal::top(&setup, &["--interval", "0.2"]);
    top.wait("the server", |screen| screen.contains("works as configured"));
    server.kill();
    top.wait("its absence", |screen| screen.contains("no answer since"));
    let server = setup.start();
    top.wait("the next server", |screen| {
        screen.contains(&format!("pid {}", server.pid())) && screen.contains("works as configured")
    });
    top.press("q");
    assert_eq!(top.wait_end(), Some(0));
}

#[test]
fn what_cannot_be_shown_is_refused_with_a_reason() {
    let setup = setup();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(BBQ);
        command.args(["top", "--admin", &setup.admin()]).args(arguments);
        command
    };
    let (code, text) = refused_start(&mut command(&[]));
    assert!(code == Some(2) && text.contains("not a terminal") && text.contains("--once"), "{text}");
    for arguments in [&["--once"][..], &["--json"]] {
        let (code, text) = refused_start(&mut command(arguments));
        assert!(
            code == Some(1) && text.contains("no server listens at") && text.contains("--admin"),
            "{text}"
        );
    }
    let (code, text) = refused_start(&mut command(&["--interval", "0"]));
    assert!(code == Some(2) && text.contains("0.2 to 3600"), "{text}");
}
