//! One sender, as a process of its own. Its spool knows what it has sent, so that a new process continues after a kill.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bbq_client::{OnFull, Sender};

use super::options::SenderOptions;
use crate::message::Message;

/// The messages of so long are sent at once, then the sender sleeps.
const BURST: Duration = Duration::from_millis(50);
/// How long the end waits for acknowledgements; the harness gives up earlier.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) fn send(options: &SenderOptions) -> Result<()> {
    let sender = Sender::builder()
        .server(options.to.parse()?)
        .spool(&options.spool)
        .on_full(OnFull::Block(None))
        // Only numbered messages are to be sent.
        .report_drops(false)
        .start()?;
    let burst = (u128::from(options.messages_per_second) * BURST.as_millis() / 1000).max(1) as usize;
    // The first message has the sequence number 1.
    let numbers: Vec<u64> = (sender.last_sequence()..options.messages).collect();
    let begin = Instant::now();
    let mut text = Vec::new();
    for (index, numbers) in numbers.chunks(burst).enumerate() {
        for &number in numbers {
            text.clear();
            Message { run: options.run, number }.write(&mut text);
            sender.send(&text)?;
        }
        let next = BURST * (index as u32 + 1);
        std::thread::sleep(next.saturating_sub(begin.elapsed()));
    }
    sender.close(CLOSE_TIMEOUT).context("not everything is acknowledged")?;
    Ok(())
}
