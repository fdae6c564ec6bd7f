//! What a row measures, batches of messages over bbq connections, and what every section shows of its rows.

use bbq_wire::AckLevel;

use crate::experiments::streaming::{STREAM_COLUMNS, stream_to_product};
use crate::load::session::{Flow, Streams};
use crate::load::threads_beside;
use crate::sample::Sample;
use crate::section::{Drawing, Row, Section};
use crate::settings::Settings;

/// Of the other sections.
pub(super) const BYTES: usize = 100;
/// Bytes of messages in a batch, and bytes on their way at most: what bbq-client fills, and what covers a disk's latency.
const BATCH_BYTES: usize = 256 * 1024;
const WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// Without a baseline.
pub(super) fn section(title: &str, about: &str, drawing: Drawing, rows: Vec<Row>) -> Section {
    Section::new(title, about, &STREAM_COLUMNS, drawing, rows)
}

pub(super) fn measure(
    settings: &Settings,
    message_bytes: usize,
    connections: usize,
    level: AckLevel,
) -> anyhow::Result<Sample> {
    let threads = threads_beside(settings.workers).min(connections);
    let window = (WINDOW_BYTES / BATCH_BYTES / connections).max(2);
    stream_to_product(settings, 1, settings.duration, &move |server| Streams {
        server,
        threads,
        connections,
        level,
        message_bytes,
        records: (BATCH_BYTES / (message_bytes + 2)) as u32, // at most BATCH_BYTES
        flow: Flow::Window(window),
    })
}
