//! Publishes to a server without atomic batches: message by message, each with an id. The server recognizes what is sent again
//! within the duplicate window of its stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use async_nats::Subject;
use bbq_sink::{Outcomes, Positions};
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until};

use super::link::{Ended, NatsLink};
use super::permission::{find_other, note_refused};
use super::reply::{in_time, late, number_of, sequence_of};
use super::server::{Server, why_ended};
use super::stream::Stream;
use super::taken::{Limits, Taken};

/// Most messages that are published and not acknowledged: so many that the way to the server and back does not matter.
const IN_FLIGHT_MAX: usize = 1024;
/// Messages that are taken at a time.
const CHUNK_MESSAGES_MAX: usize = 256;
/// Their bytes, unless one message is larger, or the server is slow; see [`super::pipeline`].
const CHUNK_BYTES_MAX: usize = 256 * 1024;

const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Messages that were taken together.
struct Chunk {
    /// The number behind the last message.
    end: u64,
    bytes: usize,
    sent: Instant,
    unacknowledged: usize,
    outcomes: Outcomes,
    /// See [`super::batch::Batch`].
    subject: Option<Subject>,
    forbidden: Option<Subject>,
}

/// What is on its way over a connection.
struct Window {
    /// The oldest is in front.
    chunks: VecDeque<Chunk>,
    /// Of the next message.
    number: u64,
    positions: Positions,
    payload: usize,
    judged: usize,
}

/// Publishes groups until the connection fails.
pub(super) async fn write(
    link: &mut NatsLink,
    mut server: Server,
    stream: Stream,
) -> Result<Infallible, Ended> {
    link.outgoing.rewind(&Positions::default());
    let largest = server.client.max_payload().min(stream.message_bytes_max.unwrap_or(usize::MAX));
    let payload = link.target.encoding.payload_max(largest, 1)?;
    let judged = link.shared.judge(payload);
    let (chunks, positions) = (VecDeque::new(), Positions::default());
    Window { chunks, number: 0, positions, payload, judged }.write(link, &mut server).await
}

/// Most bytes of a chunk.
fn chunk_bytes(link: &NatsLink) -> usize {
    CHUNK_BYTES_MAX.min(link.pipeline.bytes)
}

impl Window {
    async fn write(&mut self, link: &mut NatsLink, server: &mut Server) -> Result<Infallible, Ended> {
        let ended = match self.publish(link, server).await {
            Ok(never) => match never {},
            Err(ended) => note_refused(link, server, ended).await,
        };
        if let Ended::InDoubt(error) = &ended {
            let bytes = chunk_bytes(link);
            link.ended_in_doubt(error, 1, bytes);
        }
        Err(ended)
    }

    async fn publish(&mut self, link: &mut NatsLink, server: &mut Server) -> Result<Infallible, Ended> {
        let nothing = Positions::default();
        let patience = server.patience;
        let mut deadline = Instant::now() + patience;
        loop {
            while let Ok(group) = link.groups.try_recv() {
                link.push(group, &nothing);
            }
            let in_flight: usize = self.chunks.iter().map(|chunk| chunk.unacknowledged).sum();
            if !link.outgoing.is_taken() && in_flight < IN_FLIGHT_MAX {
                if in_flight == 0 {
                    deadline = Instant::now() + patience;
                }
                let has_sent = self.send(link, server, IN_FLIGHT_MAX - in_flight).await?;
                self.settle(link, patience);
                if has_sent {
                    continue;
                }
            }
            self.settle(link, patience);
            if in_flight == 0
                && let Some(Chunk { forbidden: Some(subject), .. }) = self.chunks.front()
            {
                find_other(link, server, subject).await?;
                continue;
            }
            let Server { replies, ended, .. } = &mut *server;
            tokio::select! {
                biased;
                reply = replies.next() => {
                    let reply = reply.ok_or_else(|| Ended::InDoubt(io::Error::other("the connection ended")))?;
                    sequence_of(&reply)?;
                    link.shared.too_large.taken();
                    let number = number_of(&reply).unwrap_or(u64::MAX);
                    if let Some(chunk) = self.chunks.iter_mut().find(|chunk| number < chunk.end) {
                        link.shared.forbidden().taken(chunk.subject.clone());
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

    /// Takes a chunk of at most so many messages, and publishes it. Returns `false` if the next message waits for those on their way.
    async fn send(&mut self, link: &mut NatsLink, server: &Server, messages: usize) -> Result<bool, Ended> {
        let (messages, bytes) = (messages.min(CHUNK_MESSAGES_MAX), chunk_bytes(link));
        // There is no progress that would have to name them.
        let limits =
            Limits { messages, bytes, payload: self.payload, judged: self.judged, refused: usize::MAX };
        let taken = Taken::take(link, limits, &mut self.positions);
        if taken.is_empty()
            && let Some(why) = taken.held
        {
            let is_idle = self.chunks.is_empty();
            return if is_idle { Err(Ended::Failed(io::Error::other(why))) } else { Ok(false) };
        }
        let Taken { messages, bytes, outcomes, forbidden, .. } = taken;
        let subject = messages.last().map(|message| message.subject.clone());
        let unacknowledged = messages.len();
        in_time(server.patience, async {
            for mut message in messages {
                let (lane, record) = message.record;
                // With the time, as a server with a copy of the data directory has other messages with the same numbers.
                let id = format!("{}-{lane}-{record}-{:x}", link.shared.id, message.received_ns);
                message.headers.insert(MESSAGE_ID, id);
                let reply = format!("{}.{}", server.inbox, self.number);
                self.number += 1;
                let (subject, headers, payload) = (message.subject, message.headers, message.payload);
                server.client.publish_with_reply_and_headers(subject, reply, headers, payload).await?;
            }
            Ok::<(), async_nats::PublishError>(())
        })
        .await?;
        self.chunks.push_back(Chunk {
            end: self.number,
            bytes,
            sent: Instant::now(),
            unacknowledged,
            outcomes,
            subject,
            forbidden,
        });
        Ok(true)
    }

    /// Settles what is acknowledged, in order.
    fn settle(&mut self, link: &mut NatsLink, patience: Duration) {
        let has_other = link.shared.forbidden().has_other();
        let is_done =
            |chunk: &mut Chunk| chunk.unacknowledged == 0 && (has_other || chunk.forbidden.is_none());
        while let Some(chunk) = self.chunks.pop_front_if(is_done) {
            link.batch_taken(chunk.bytes, chunk.sent.elapsed(), patience);
            link.outgoing.settle(chunk.outcomes);
        }
        link.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_server;

    #[tokio::test]
    async fn messages_that_are_late_are_fewer_on_the_next_connection() {
        let (mut link, mut server) = fake_server::connect("").await;
        server.patience = Duration::from_millis(50);
        assert_eq!(chunk_bytes(&link), CHUNK_BYTES_MAX);
        let late = Chunk {
            end: 1,
            bytes: 1,
            sent: Instant::now(),
            unacknowledged: 1,
            outcomes: Outcomes::default(),
            subject: None,
            forbidden: None,
        };
        let (chunks, positions) = (VecDeque::from([late]), Positions::default());
        let mut window = Window { chunks, number: 1, positions, payload: 1, judged: 1 };
        let ended = window.write(&mut link, &mut server).await;
        assert!(matches!(ended, Err(Ended::InDoubt(_))));
        assert_eq!(chunk_bytes(&link), CHUNK_BYTES_MAX / 2);
        // What is quick then lets them grow again.
        let quick =
            Chunk { bytes: CHUNK_BYTES_MAX / 2, unacknowledged: 0, ..window.chunks.pop_back().unwrap() };
        window.chunks.push_back(Chunk { sent: Instant::now(), ..quick });
        window.settle(&mut link, Duration::from_secs(30));
        assert_eq!(chunk_bytes(&link), CHUNK_BYTES_MAX);
    }
}
