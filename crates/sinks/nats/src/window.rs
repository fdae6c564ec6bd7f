//! Publishes to a server without atomic batches: message by message, each with an id. The server recognizes what is sent again
//! within the duplicate window of its stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;

use bbq_sink::{Outcomes, Positions};
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until};

use super::link::{Ended, NatsLink};
use super::reply::{in_time, late, number_of, sequence_of};
use super::server::{Server, why_ended};
use super::stream::Stream;
use super::taken::{Limits, Taken};

/// Most messages that are published and not acknowledged: so many that the way to the server and back does not matter.
const IN_FLIGHT_MAX: usize = 1024;
/// Messages that are taken at a time.
const CHUNK_MESSAGES_MAX: usize = 256;
/// Their bytes, unless one message is larger.
const CHUNK_BYTES_MAX: usize = 256 * 1024;

const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Messages that were taken together.
struct Chunk {
    /// The number behind the last message.
    end: u64,
    unacknowledged: usize,
    outcomes: Outcomes,
}

/// Publishes groups until the connection fails.
pub(super) async fn write(
    link: &mut NatsLink,
    mut server: Server,
    stream: Stream,
) -> Result<Infallible, Ended> {
    let nothing = Positions::default();
    link.outgoing.rewind(&nothing);
    let largest = server.client.max_payload().min(stream.message_bytes_max.unwrap_or(usize::MAX));
    let payload = link.target.encoding.payload_max(largest, 1)?;
    let judged = link.shared.judge(payload);
    let (mut chunks, mut number, mut positions) = (VecDeque::<Chunk>::new(), 0_u64, Positions::default());
    let patience = server.patience;
    let mut deadline = Instant::now() + patience;
    loop {
        while let Ok(group) = link.groups.try_recv() {
            link.push(group, &nothing);
        }
        let in_flight: usize = chunks.iter().map(|chunk| chunk.unacknowledged).sum();
        if !link.outgoing.is_taken() && in_flight < IN_FLIGHT_MAX {
            let messages = CHUNK_MESSAGES_MAX.min(IN_FLIGHT_MAX - in_flight);
            let limits = Limits { messages, bytes: CHUNK_BYTES_MAX, payload, judged };
            let Taken { messages, outcomes, .. } =
                Taken::take(&mut link.outgoing, &mut link.encoder, limits, &mut positions);
            let unacknowledged = messages.len();
            if in_flight == 0 {
                deadline = Instant::now() + patience;
            }
            in_time(patience, async {
                for mut message in messages {
                    let (lane, record) = message.record;
                    // With the time, as a server with a copy of the data directory has other messages with the same numbers.
                    let id = format!("{}-{lane}-{record}-{:x}", link.shared.id, message.received_ns);
                    message.headers.insert(MESSAGE_ID, id);
                    let reply = format!("{}.{number}", server.inbox);
                    number += 1;
                    let (subject, headers, payload) = (message.subject, message.headers, message.payload);
                    server.client.publish_with_reply_and_headers(subject, reply, headers, payload).await?;
                }
                Ok::<(), async_nats::PublishError>(())
            })
            .await?;
            chunks.push_back(Chunk { end: number, unacknowledged, outcomes });
            settle(link, &mut chunks);
            continue;
        }
        settle(link, &mut chunks);
        let Server { replies, ended, .. } = &mut server;
        tokio::select! {
            biased;
            reply = replies.next() => {
                let reply = reply.ok_or_else(|| Ended::InDoubt(io::Error::other("the connection ended")))?;
                sequence_of(&reply)?;
                let number = number_of(&reply).unwrap_or(u64::MAX);
                if let Some(chunk) = chunks.iter_mut().find(|chunk| number < chunk.end) {
                    chunk.unacknowledged = chunk.unacknowledged.saturating_sub(1);
                }
                deadline = Instant::now() + patience;
            }
            why = why_ended(ended) => return Err(Ended::InDoubt(why)),
            Some(group) = link.groups.recv() => link.push(group, &nothing),
            () = sleep_until(deadline), if in_flight > 0 => return Err(late(patience)),
        }
    }
}

/// Settles what is acknowledged, in order.
fn settle(link: &mut NatsLink, chunks: &mut VecDeque<Chunk>) {
    while let Some(chunk) = chunks.pop_front_if(|chunk| chunk.unacknowledged == 0) {
        link.outgoing.settle(chunk.outcomes);
    }
    link.settle();
}
