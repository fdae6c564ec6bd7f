//! A program that logs with the `tracing` crate, to a bbq server.
//!
//!     cargo run --release -p bbq-queue --example tracing_layer -- bbq://127.0.0.1:7700 1000
//!
//! Logs COUNT events as JSON and ends; with a third word, by a panic. In both cases the program waits for its last events.

use anyhow::Context as _;
use bbq_client::{Format, TracingLayer};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (server, count, panics) = match arguments.as_slice() {
        [server, count] => (server, count, false),
        [server, count, word] if word == "panic" => (server, count, true),
        _ => anyhow::bail!("usage: tracing_layer SERVER COUNT [panic]"),
    };
    let count: u64 = count.parse().context("COUNT is a number")?;
    let layer =
        TracingLayer::new(TracingLayer::sender().server(server.parse()?).start()?).format(Format::Json);
    let _guard = layer.guard();
    tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).try_init()?;
    let _span = tracing::info_span!("counting", of = count, done = tracing::field::Empty).entered();
    for number in 0..count {
        tracing::info!(number, "an event\nof two lines");
    }
    tracing::Span::current().record("done", true);
    tracing::warn!(error = ?std::fmt::Error, "the last one");
    assert!(!panics, "it was told to panic");
    Ok(())
}
