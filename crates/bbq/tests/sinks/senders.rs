//! What the tests of brokers share: a server between senders of numbered messages and the broker.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::random::Random;
use crate::support::{BBQ, KilledIfThisFails, Server, Setup};

/// `bbq send` of a file with numbered lines of a sender, to the first listener.
pub(crate) fn send(setup: &Setup, sender: u32, count: u32) -> Child {
    send_with(setup, sender, count, &|_| String::new())
}

/// The same; each line begins with what `head` makes of its number.
fn send_with(setup: &Setup, sender: u32, count: u32, head: &dyn Fn(u32) -> String) -> Child {
    let file = setup.path().join(format!("lines-{sender}"));
    let lines: String = (0..count).map(|number| format!("{}{sender} {number}\n", head(number))).collect();
    fs::write(&file, lines).expect("a file");
    let mut command = Command::new(BBQ);
    command.arg("send").args(["--to", &format!("bbq://{}", setup.address(0))]).arg(file);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

pub(crate) fn send_all(setup: &Setup, sender: u32, count: u32) {
    assert!(send(setup, sender, count).wait().expect("it was ours").success());
}

/// Senders that send at the same time.
pub(crate) struct Senders {
    children: Vec<Child>,
    _killed: Vec<KilledIfThisFails>,
}

impl Senders {
    /// Each sends so many messages.
    pub(crate) fn start(setup: &Setup, senders: std::ops::Range<u32>, count: u32) -> Senders {
        Senders::start_with(setup, senders, count, &|_| String::new())
    }

    /// The same; each line begins with what `head` makes of its number.
    pub(crate) fn start_with(
        setup: &Setup,
        senders: std::ops::Range<u32>,
        count: u32,
        head: &dyn Fn(u32) -> String,
    ) -> Senders {
        let children: Vec<Child> = senders.map(|sender| send_with(setup, sender, count, head)).collect();
        let killed = children.iter().map(KilledIfThisFails::of).collect();
        Senders { children, _killed: killed }
    }

    pub(crate) fn are_sending(&mut self) -> bool {
        self.children.iter_mut().any(|sender| sender.try_wait().expect("it was ours").is_none())
    }

    /// Waits until all have sent everything.
    pub(crate) fn wait(mut self) {
        for sender in &mut self.children {
            assert!(sender.wait().expect("it was ours").success());
        }
    }
}

/// Returns in the middle of something, often: when more is delivered, or `all` is, or by chance at once.
pub(crate) fn wait_more(server: &Server<'_>, all: u32, random: &mut Random) {
    let seen = server.status()["ledger"]["delivered"].as_u64();
    if random.below(3) > 0 {
        server.wait_status("more", |status| {
            let delivered = status["ledger"]["delivered"].as_u64();
            delivered > seen || delivered >= Some(all.into())
        });
    }
}

/// Starts with a number of workers by chance.
pub(crate) fn start<'a>(setup: &'a Setup, random: &mut Random) -> Server<'a> {
    setup.start_with_workers(1 + random.below(3) as usize)
}

/// Waits until the problem of the first sink has these words.
pub(crate) fn wait_problem(server: &Server<'_>, words: &str) -> String {
    let shown = |status: &Value| status["sinks"][0]["problem"].as_str().map(str::to_owned);
    let status = server.wait_status(words, |status| shown(status).is_some_and(|text| text.contains(words)));
    shown(&status).unwrap_or_default()
}
