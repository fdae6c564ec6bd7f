//! A program with bbq-client's sender, as a process that can be killed. Its spool knows what it has sent, so that a new process
//! continues after a kill.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bbq_client::{OnFull, SendError, Sender, ServerAddress};
use clap::Args;

use crate::message::Message;

/// The messages of so long are sent at once, then the sender sleeps.
const BURST: Duration = Duration::from_millis(50);
/// How long the end waits for acknowledgements; the harness gives up earlier.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long `send` waits for room before the sender looks whether to end.
const ROOM_TIMEOUT: Duration = Duration::from_millis(100);

/// Sends the numbered messages of a run
#[derive(Clone, Debug, Args)]
pub(crate) struct SenderOptions {
    #[arg(long, required = true)]
    to: Vec<String>,
    #[arg(long)]
    spool: PathBuf,
    #[arg(long)]
    run: u32,
    /// How many messages this spool has sent in earlier runs
    #[arg(long, default_value_t = 0)]
    before: u64,
    /// The messages of the run; without a number it ends when standard input does, and prints how many messages it has sent
    #[arg(long)]
    messages: Option<u64>,
    #[arg(long)]
    messages_per_second: u64,
}

pub(crate) fn send(options: &SenderOptions) -> Result<()> {
    let servers =
        options.to.iter().map(|server| server.parse()).collect::<Result<Vec<ServerAddress>, _>>()?;
    let sender = Sender::builder()
        .servers(servers)
        .spool(&options.spool)
        .on_full(OnFull::Block(Some(ROOM_TIMEOUT)))
        // Only numbered messages are to be sent.
        .report_drops(false)
        .on_notice(|notice| eprintln!("{notice:?}"))
        .start()?;
    let is_ending = Arc::new(AtomicBool::new(false));
    if options.messages.is_none() {
        let is_ending = Arc::clone(&is_ending);
        std::thread::spawn(move || {
            let _until_the_end = io::copy(&mut io::stdin(), &mut io::sink());
            is_ending.store(true, Ordering::Release);
        });
    }
    let burst = (u128::from(options.messages_per_second) * BURST.as_millis() / 1000).max(1) as u64;
    // The first message has the sequence number 1.
    let sent = sender.last_sequence().checked_sub(options.before);
    let mut number = sent.context("the spool has begun a new stream")?;
    let last = options.messages.unwrap_or(u64::MAX);
    let (begin, mut bursts) = (Instant::now(), 0);
    let mut text = Vec::new();
    while number < last && !is_ending.load(Ordering::Acquire) {
        for _ in 0..burst.min(last - number) {
            text.clear();
            Message { run: options.run, number }.write(&mut text);
            match sender.send(&text) {
                Ok(()) => number += 1,
                Err(SendError::Full { .. } | SendError::SpoolFull { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        bursts += 1;
        std::thread::sleep((BURST * bursts).saturating_sub(begin.elapsed()));
    }
    sender.close(CLOSE_TIMEOUT).context("not everything is acknowledged")?;
    println!("{number}");
    Ok(())
}
