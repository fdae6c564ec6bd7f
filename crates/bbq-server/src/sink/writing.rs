//! Formatted messages on their way to the output: collected, written, and written again until the output takes them or the
//! server's patience is over.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_spool::Entry;
use bbq_spool::direct::AlignedBuffer;
use bbq_wire::limits::BATCH_BODY_BYTES_TARGET;
use tracing::{info, warn};

use super::format::Formatter;
use super::{Output, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN, SinkLedger};
use crate::config::SinkSpec;
use crate::stop::Stop;

/// The buffer is written when it has this size: what a request to the disk costs (a third of all that a sink spent, with a
/// quarter of it) vanishes beside the bytes.
const OUTPUT_BYTES_TARGET: usize = 1024 * 1024;

/// Room for that and the batch that took it there, mostly: a buffer that grows may lie differently to blocks of the file.
const OUTPUT_BUFFER_BYTES: usize = 2 * OUTPUT_BYTES_TARGET + BATCH_BODY_BYTES_TARGET;

/// The server's patience is over; the last commit stands.
pub(super) struct Interrupted;

pub(super) struct Writing {
    name: String,
    formatter: Formatter,
    output: Box<dyn Output>,
    ledger: Arc<SinkLedger>,
    stop: Arc<Stop>,
    buffer: AlignedBuffer,
    /// Records read and not counted as delivered yet.
    records: u64,
    /// Bytes written since the last commit.
    uncommitted_bytes: u64,
}

impl Writing {
    pub(super) fn new(
        spec: &SinkSpec,
        output: Box<dyn Output>,
        ledger: Arc<SinkLedger>,
        stop: Arc<Stop>,
    ) -> Writing {
        Writing {
            name: spec.name.clone(),
            formatter: Formatter::new(spec.format),
            output,
            ledger,
            stop,
            buffer: AlignedBuffer::with_capacity(OUTPUT_BUFFER_BYTES),
            records: 0,
            uncommitted_bytes: 0,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn output(&mut self) -> &mut dyn Output {
        &mut *self.output
    }

    pub(super) fn uncommitted_bytes(&self) -> u64 {
        self.uncommitted_bytes
    }

    /// Takes the messages of a batch.
    pub(super) fn take(&mut self, entry: &Entry<'_>) -> Result<(), Interrupted> {
        if self.buffer.is_empty() {
            self.buffer.begin(self.output.position());
        }
        self.formatter.append(entry, self.buffer.end());
        if self.buffer.len() >= OUTPUT_BYTES_TARGET { self.write_buffer() } else { Ok(()) }
    }

    /// A group was read to its end: its records count as delivered with the next write.
    pub(super) fn add_records(&mut self, records: u64) {
        self.records += records;
    }

    /// Writes what has collected. Counted behind the write: delivered never runs ahead of the output.
    pub(super) fn write_out(&mut self) -> Result<(), Interrupted> {
        self.write_buffer()?;
        self.ledger.add_delivered(std::mem::take(&mut self.records));
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<(), Interrupted> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut pause = RETRY_PAUSE_MIN;
        while let Err(error) = self.output.write(&self.buffer) {
            self.report(&error, pause == RETRY_PAUSE_MIN);
            self.pause(pause)?;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
        self.recovered();
        self.uncommitted_bytes += self.buffer.len() as u64;
        self.buffer.begin(self.output.position());
        Ok(())
    }

    /// Makes what was written durable; answers what to remember of the output.
    pub(super) fn commit(&mut self) -> io::Result<String> {
        let state = self.output.commit()?;
        self.uncommitted_bytes = 0;
        Ok(state)
    }

    pub(super) fn report(&self, error: &io::Error, first: bool) {
        if first {
            warn!(sink = self.name, %error, "sink failed; retrying until it works, the spool keeps what it owes");
        }
        self.ledger.set_trouble(Some(error.to_string()));
    }

    pub(super) fn recovered(&self) {
        if self.ledger.trouble().is_some() {
            info!(sink = self.name, "sink works again");
            self.ledger.set_trouble(None);
        }
    }

    pub(super) fn pause(&self, pause: Duration) -> Result<(), Interrupted> {
        self.stop.wait_over(pause);
        if self.stop.is_over() { Err(Interrupted) } else { Ok(()) }
    }
}
