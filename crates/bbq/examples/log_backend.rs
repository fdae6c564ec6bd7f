//! A program that logs with the `log` crate, to a bbq server.
//!
//!     cargo run --release -p bbq-queue --example log_backend -- bbq://127.0.0.1:7700 1000
//!
//! Logs COUNT records and ends; with a third word, by a panic. In both cases the program waits for its last records.

use anyhow::Context as _;
use bbq_client::LogBackend;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (server, count, panics) = match arguments.as_slice() {
        [server, count] => (server, count, false),
        [server, count, word] if word == "panic" => (server, count, true),
        _ => anyhow::bail!("usage: log_backend SERVER COUNT [panic]"),
    };
    let count: u64 = count.parse().context("COUNT is a number")?;
    let sender = LogBackend::sender().server(server.parse()?).start()?;
    let _guard = LogBackend::new(sender).install()?;
    for number in 0..count {
        log::info!(number, of = count; "a record\nof two lines");
    }
    assert!(!panics, "it was told to panic");
    Ok(())
}
