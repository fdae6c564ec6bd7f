//! If this fails, a sink whose rules change while it is killed loses or doubles messages in files or in NATS, or brings them out of order.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;

use serde_json::Value;

use crate::nats::{STREAM, edge_to};
use crate::nats_server::{Nats, new_server};
use crate::senders::{Senders, start};
use crate::support::random::Random;
use crate::support::{Setup, assert_balanced};

/// Rules of which each leaves out something else, and none what ends in another digit than 1 or 2.
const RULES: [&str; 4] = [
    "",
    "&where=!message.endsWith(\"1\")",
    "&where=!message.endsWith(\"2\")",
    "&where=!message.endsWith(\"1\")&redact=s/ /:/",
];
const SENDERS: u32 = 4;
const COUNT: u32 = 20_000;
const KILLS: u32 = 8;

fn may_be_left_out(number: u32) -> bool {
    matches!(number % 10, 1 | 2)
}

/// Checks that each message of each sender is there once and in order, but for those that rules leave out.
fn assert_once_or_left_out<'a>(messages: impl Iterator<Item = &'a str>) -> u32 {
    let mut last = vec![None; SENDERS as usize];
    let (mut kept, mut count) = (0, 0);
    for message in messages {
        // By one of the rules.
        let (sender, number) = message.split_once([' ', ':']).expect("a numbered message");
        let (sender, number): (usize, u32) =
            (sender.parse().expect("a sender"), number.parse().expect("a number"));
        assert!(last[sender] < Some(number), "{number} of sender {sender} is behind {:?}", last[sender]);
        last[sender] = Some(number);
        kept += u32::from(!may_be_left_out(number));
        count += 1;
    }
    assert_eq!(kept, SENDERS * COUNT / 10 * 8, "what no rules leave out");
    count
}

/// What is delivered or left out.
fn settled(status: &Value) -> u64 {
    ["delivered", "filtered"].iter().filter_map(|name| status["ledger"][name].as_u64()).sum()
}

/// Kills a server while clients send, and starts it with other rules. `sink` is its SPEC, to which rules are added.
fn run(setup: &mut Setup, sink: &str, random: &mut Random) {
    let configure = |setup: &mut Setup, random: &mut Random| {
        let rules = RULES[random.below(RULES.len() as u64) as usize];
        setup.set_sinks(&[&format!("{sink}{rules}")]);
    };
    configure(setup, random);
    let mut sending = Senders::start(setup, 0..SENDERS, COUNT);
    let mut kills = 0;
    while sending.are_sending() || kills < KILLS {
        {
            let server = start(setup, random);
            let seen = settled(&server.status());
            if random.below(3) > 0 {
                server.wait_status("more", |status| {
                    let settled = settled(status);
                    settled > seen || settled >= u64::from(SENDERS * COUNT)
                });
            }
            server.kill();
        }
        kills += 1;
        configure(setup, random);
    }
    sending.wait();
    eprintln!("{kills} kills");
}

#[test]
fn files_have_each_message_once_whichever_rules_it_was_received_under() {
    let mut random = Random::seeded();
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 1\n");
    run(&mut setup, "file:{dir}/out.log?name=out&rotate_bytes=64KiB", &mut random);
    let server = start(&setup, &mut random);
    let status = server.wait_status("all is settled", |status| {
        status["ledger"]["received"] == SENDERS * COUNT && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let mut paths: Vec<_> = fs::read_dir(setup.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("out.log.")))
        .collect();
    paths.sort();
    paths.push(setup.output());
    let text: String = paths.iter().map(|path| fs::read_to_string(path).expect("text")).collect();
    let count = assert_once_or_left_out(text.lines());
    assert_eq!(
        (status["ledger"]["delivered"].as_u64(), status["ledger"]["filtered"].as_u64()),
        (Some(count.into()), Some((SENDERS * COUNT - count).into()))
    );
}

#[test]
fn nats_has_each_message_once_whichever_rules_it_was_received_under() {
    let mut random = Random::seeded();
    let nats = Nats::new(new_server());
    let broker = nats.start();
    let query = format!("stream={STREAM}&create=on&name=out");
    let mut setup = edge_to(&nats, "logs", &query);
    run(&mut setup, &format!("nats://{}/logs?{query}", nats.address()), &mut random);
    let server = start(&setup, &mut random);
    let status = server.wait_status("all is settled", |status| {
        status["ledger"]["received"] == SENDERS * COUNT && status["ledger"]["queued"] == 0
    });
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let messages = broker.client().read(STREAM, "logs");
    let count = assert_once_or_left_out(messages.iter().map(|message| message.text()));
    assert_eq!(
        (status["ledger"]["delivered"].as_u64(), status["ledger"]["filtered"].as_u64()),
        (Some(count.into()), Some((SENDERS * COUNT - count).into()))
    );
}
