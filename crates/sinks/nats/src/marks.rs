//! What keeps batches in order that are on their way together.
//!
//! A batch may only come behind the one before it, whose place bbq does not know before the server responds. So bbq names the place that it
//! expects. For that a batch ends with an empty message, its *mark*, on a subject of bbq's own:
//!
//! ```text
//! logs.web ..   bbq.progress.<id>   bbq.progress.<id>-<epoch>    Nats-Expected-Last-Subject-Sequence: <place of the mark before it>
//! ```
//!
//! If anything comes in between, the server refuses this batch and all behind it.
//!
//! A place that is only expected may come true later, when the batches before it are long given up: a batch that was held up somewhere would
//! then be taken, and what is before it would be missing. So each connection has another *epoch*, and with it another subject of marks. Before
//! it publishes anything, it puts a mark on the subject of the last epoch, at an odd place; bbq sends nothing behind a mark that it expects at an
//! odd place. From then on, nothing of that epoch can be taken any more. The epoch is in the progress.

use super::link::Ended;
use super::reply::publish_alone;
use super::server::Server;
use super::stream::{Stream, marks_subject};

/// Returns when no batch of the epoch that named a place in advance can be taken any more.
pub(super) async fn end(
    server: &mut Server,
    stream: &Stream,
    progress: &str,
    epoch: u64,
) -> Result<(), Ended> {
    let subject = marks_subject(progress, epoch);
    let mut last = stream.last(server, &subject).await?.map_or(0, |(place, _)| place);
    // Behind an even place the next one is odd, unless others publish to the stream.
    loop {
        last = publish_alone(server, &subject, last, String::new()).await?;
        if !last.is_multiple_of(2) {
            return Ok(());
        }
    }
}
