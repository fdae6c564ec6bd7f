//! A program that may be killed at any moment and then continues where it was: its sender's spool knows what was taken.
//!
//!     cargo run --release -p bbq-queue --example resume -- bbq://127.0.0.1:7700 /var/tmp/numbers 1000000
//!
//! Sends the numbers 1 to COUNT, each once, however often it is killed and started again. Prints every thousandth.

use std::time::Duration;

use anyhow::Context as _;
use bbq_client::{OnFull, Sender};

/// Numbers between two lines of progress.
const REPORT: u64 = 1000;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, spool, count] = arguments.as_slice() else {
        anyhow::bail!("usage: resume SERVER SPOOL COUNT")
    };
    let count: u64 = count.parse().context("COUNT is a number")?;
    let sender = Sender::builder()
        .server(server.parse()?)
        .spool(spool)
        .on_full(OnFull::Block(None))
        // Only numbers are to be sent.
        .report_drops(false)
        .start()?;
    // The last number that earlier runs have sent.
    let done = sender.last_sequence();
    println!("{done}");
    for number in done + 1..=count {
        sender.send(number.to_string().as_bytes())?;
        if number % REPORT == 0 {
            println!("{number}");
        }
    }
    let counters = sender.close(Duration::from_secs(60))?;
    eprintln!(
        "{} sent now, {} found in the spool, {} acknowledged",
        counters.accepted, counters.recovered, counters.acknowledged
    );
    Ok(())
}
