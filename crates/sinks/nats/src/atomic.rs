//! Publishes in atomic batches (ADR-50): each message is in the stream exactly once. See the module above for how.
//!
//! Two batches are on their way: while the server commits one, the messages of the next are published. The message about the
//! progress is the last of a batch, and only this one needs to know the place of the progress before it.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use async_nats::{HeaderMap, Message as Reply, StatusCode, Subject};
use bbq_sink::{CONFLICT, Outcomes, Positions, TAKEN_OVER};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::link::{Ended, NatsLink};
use super::server::{Server, api_error, why_ended};
use super::shared::Seen;
use super::stream::{Progress, Stream};
use super::taken::{Limits, Taken};

/// Messages of a batch: a server takes 1,000, of which one is about the progress.
const BATCH_MESSAGES_MAX: usize = 999;
/// Bytes of a batch, unless one message is larger: in a cluster a batch is one proposal.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// The shortest time between two batches that are not full: there are at most 200 messages about progress a second.
const COMMIT_INTERVAL: Duration = Duration::from_millis(5);
/// The number of replies about the first message of a batch, which is published with a reply so that a refusal is told.
const FIRST: u64 = 0;

/// `err_code`s of nats-server (errors.json).
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];
const BATCH_INCOMPLETE: u64 = 10176;

const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";
const EXPECTED_LAST: &str = "Nats-Expected-Last-Subject-Sequence";

/// A batch on its way.
struct Batch {
    number: u64,
    id: String,
    messages: usize,
    bytes: usize,
    outcomes: Outcomes,
}

/// A batch that the server is to commit.
struct Committing {
    batch: Batch,
    /// How far the stream is then.
    positions: Positions,
    deadline: Instant,
}

/// See the module.
pub(super) struct AtomicWriter {
    server: Server,
    progress: Subject,
    /// The place of the last progress in the stream.
    sequence: u64,
    /// How far the stream was when the connection began.
    stored: Positions,
    /// How far the stream is with everything that is taken.
    positions: Positions,
    payload_max: usize,
    staged: Batch,
    committing: Option<Committing>,
    /// When the last batch was committed.
    committed: Instant,
}

impl Batch {
    /// The id is unique among the batches of all writers of a stream that are on their way.
    fn new(number: u64, writer: &str) -> Batch {
        let id = format!("{}{number:x}", &writer[..8.min(writer.len())]);
        Batch { number, id, messages: 0, bytes: 0, outcomes: Outcomes::default() }
    }

    fn is_full(&self) -> bool {
        self.messages >= BATCH_MESSAGES_MAX || self.bytes >= BATCH_BYTES_MAX
    }

    fn headers(&self, headers: &mut HeaderMap) {
        headers.insert(BATCH_ID, self.id.as_str());
        headers.insert(BATCH_SEQUENCE, self.messages.to_string());
    }
}

impl AtomicWriter {
    /// Finds out how far the stream is, and makes this the only writer of its progress.
    pub(super) async fn begin(
        link: &mut NatsLink,
        mut server: Server,
        stream: Stream,
        progress: String,
    ) -> Result<AtomicWriter, Ended> {
        let found = stream.progress(&mut server, &progress).await?;
        let seen = link.shared.seen();
        let has_written = link.shared.is_writer();
        let is_own = found.as_ref().is_some_and(|found| found.writer == link.shared.writer);
        let positions = match &found {
            Some(found)
                if !is_own && seen.created == stream.created && link.shared.is_after_own(found.sequence) =>
            {
                return Err(Ended::Failed(io::Error::other(format!(
                    "another bbq server has taken over {progress}; {TAKEN_OVER}"
                ))));
            }
            Some(found) => found.positions.clone(),
            // It was deleted, with the messages before it.
            None if seen.created == stream.created && stream.first_sequence > seen.sequence => {
                seen.positions.clone()
            }
            None => Positions::default(),
        };
        let sequence = found.map_or(0, |found| found.sequence);
        if !is_own {
            // What is left was before it.
            link.shared.forget_writing();
        }
        let now = Seen { created: stream.created.clone(), sequence, positions: positions.clone() };
        let lost = link.shared.see(&now);
        if lost > 0 {
            let text = match seen.created == stream.created {
                true => {
                    "the server lost messages that it had acknowledged; sending again those that are still here"
                }
                false => {
                    "this is not the stream that earlier messages went to; sending again those that are still here"
                }
            };
            warn!(sink = link.target.name, stream = stream.name, messages = lost, "{text}");
            if has_written {
                return Err(Ended::Lost(io::Error::other(text)));
            }
        }
        let largest = server.client.max_payload().min(stream.message_bytes_max.unwrap_or(usize::MAX));
        let payload_max = link.target.encoding.payload_max(largest);
        let payload = Progress::payload(&link.shared.writer, &positions);
        if payload_max < payload.len() {
            return Err(Ended::Failed(io::Error::other(format!(
                "the server takes messages of {largest} bytes with headers, which is too little; raise its max_payload, or the \
                 stream's max_msg_size"
            ))));
        }
        link.outgoing.rewind(&positions);
        let mut writer = AtomicWriter {
            server,
            progress: progress.into(),
            sequence,
            stored: positions.clone(),
            positions,
            payload_max,
            staged: Batch::new(FIRST + 1, &link.shared.writer),
            committing: None,
            committed: Instant::now(),
        };
        if !link.shared.is_writer() {
            writer.take_over(link, payload).await?;
        }
        Ok(writer)
    }

    /// Publishes progress, so that the batches of earlier writers are refused from now on.
    async fn take_over(&mut self, link: &NatsLink, payload: String) -> Result<(), Ended> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_LAST, self.sequence.to_string());
        let reply = format!("{}.{}", self.server.inbox, self.staged.number);
        let client = &self.server.client;
        let subject = self.progress.clone();
        let published = client.publish_with_reply_and_headers(subject, reply, headers, payload.into()).await;
        published.map_err(|error| Ended::InDoubt(io::Error::other(error)))?;
        let Server { replies, patience, .. } = &mut self.server;
        let patience = *patience;
        let reply = timeout(patience, replies.next()).await.map_err(|_| late(patience))?;
        let reply = reply.ok_or_else(|| Ended::InDoubt(io::Error::other("the connection ended")))?;
        self.sequence = sequence_of(&reply)?;
        link.shared.wrote(self.sequence, &self.positions);
        self.staged = Batch::new(self.staged.number + 1, &link.shared.writer);
        Ok(())
    }

    /// Publishes groups until the connection fails.
    pub(super) async fn write(mut self, link: &mut NatsLink) -> Result<Infallible, Ended> {
        loop {
            while let Ok(group) = link.groups.try_recv() {
                link.push(group, &self.stored);
            }
            let staged = self.stage(link).await?;
            let committed = self.commit(link).await?;
            link.settle();
            if staged || committed {
                continue;
            }
            let is_waiting = self.committing.is_none() && !self.staged.outcomes.is_empty();
            let commit_at = self.committed + COMMIT_INTERVAL;
            let deadline = self.committing.as_ref().map(|committing| committing.deadline);
            let Server { replies, ended, patience, .. } = &mut self.server;
            let patience = *patience;
            tokio::select! {
                biased;
                reply = replies.next() => {
                    let gone = || Ended::InDoubt(io::Error::other("the connection ended"));
                    let reply = reply.ok_or_else(gone)?;
                    self.reply(link, &reply)?;
                }
                why = why_ended(ended) => return Err(Ended::InDoubt(why)),
                Some(group) = link.groups.recv() => link.push(group, &self.stored),
                () = sleep_until(commit_at), if is_waiting => {}
                () = sleep_until(deadline.unwrap_or(commit_at)), if deadline.is_some() => return Err(late(patience)),
            }
        }
    }

    /// Publishes messages of the next batch. Returns whether there were any.
    async fn stage(&mut self, link: &mut NatsLink) -> Result<bool, Ended> {
        if self.staged.is_full() || link.outgoing.is_taken() {
            return Ok(false);
        }
        let limits = Limits {
            messages: BATCH_MESSAGES_MAX - self.staged.messages,
            bytes: BATCH_BYTES_MAX - self.staged.bytes,
            payload: self.payload_max,
        };
        let Taken { messages, bytes, outcomes } =
            Taken::take(&mut link.outgoing, &mut link.encoder, limits, &mut self.positions);
        if link.outgoing.has_conflict() {
            return Err(Ended::Lost(io::Error::other(CONFLICT)));
        }
        self.staged.bytes += bytes;
        self.staged.outcomes.append(outcomes);
        let (server, staged) = (&self.server, &mut self.staged);
        let publish = async {
            for mut message in messages {
                staged.messages += 1;
                staged.headers(&mut message.headers);
                let (subject, payload) = (message.subject, message.payload);
                if staged.messages == 1 {
                    let reply = format!("{}.{FIRST}", server.inbox);
                    let client = &server.client;
                    client.publish_with_reply_and_headers(subject, reply, message.headers, payload).await?;
                } else {
                    server.client.publish_with_headers(subject, message.headers, payload).await?;
                }
            }
            Ok::<(), async_nats::PublishError>(())
        };
        in_time(server.patience, publish).await?;
        Ok(true)
    }

    /// Has the server commit what is staged, if it is time. Returns whether there is room for another batch.
    async fn commit(&mut self, link: &mut NatsLink) -> Result<bool, Ended> {
        let is_due = self.staged.is_full() || self.committed.elapsed() >= COMMIT_INTERVAL;
        if self.committing.is_some() || self.staged.outcomes.is_empty() || !is_due {
            return Ok(false);
        }
        let next = Batch::new(self.staged.number + 1, &link.shared.writer);
        let mut batch = std::mem::replace(&mut self.staged, next);
        if batch.messages == 0 {
            // The stream had everything, or nothing of it can be sent.
            link.outgoing.settle(batch.outcomes);
            return Ok(true);
        }
        batch.messages += 1;
        let mut headers = HeaderMap::new();
        batch.headers(&mut headers);
        headers.insert(BATCH_COMMIT, "1");
        headers.insert(EXPECTED_LAST, self.sequence.to_string());
        let payload = Progress::payload(&link.shared.writer, &self.positions);
        let reply = format!("{}.{}", self.server.inbox, batch.number);
        let (client, subject) = (&self.server.client, self.progress.clone());
        let published = client.publish_with_reply_and_headers(subject, reply, headers, payload.into());
        in_time(self.server.patience, published).await?;
        self.committed = Instant::now();
        let deadline = self.committed + self.server.patience;
        self.committing = Some(Committing { batch, positions: self.positions.clone(), deadline });
        Ok(true)
    }

    fn reply(&mut self, link: &mut NatsLink, reply: &Reply) -> Result<(), Ended> {
        let number = number_of(reply);
        if number == Some(FIRST) {
            // A server that is content sends nothing, or an empty message.
            return if reply.payload.is_empty() && reply.status.is_none() {
                Ok(())
            } else {
                Err(refusal(reply))
            };
        }
        let Some(committing) = self.committing.take_if(|committing| Some(committing.batch.number) == number)
        else {
            return Ok(());
        };
        self.sequence = sequence_of(reply)?;
        link.shared.wrote(self.sequence, &committing.positions);
        link.outgoing.settle(committing.batch.outcomes);
        Ok(())
    }
}

/// Waits for room among what is to be sent, but not without end.
pub(super) async fn in_time<E: std::error::Error + Send + Sync + 'static>(
    patience: Duration,
    publish: impl Future<Output = Result<(), E>>,
) -> Result<(), Ended> {
    let published = timeout(patience, publish).await.map_err(|_| late(patience))?;
    published.map_err(|error| Ended::InDoubt(io::Error::other(error)))
}

pub(super) fn late(patience: Duration) -> Ended {
    let text = format!("the server did not take what was published within {} s", patience.as_secs());
    Ended::InDoubt(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// The number at the end of a reply's subject.
pub(super) fn number_of(reply: &Reply) -> Option<u64> {
    reply.subject.rsplit('.').next().and_then(|number| number.parse().ok())
}

/// The place in the stream of what was acknowledged.
pub(super) fn sequence_of(reply: &Reply) -> Result<u64, Ended> {
    let response: Option<Value> = serde_json::from_slice(&reply.payload).ok();
    let sequence =
        response.filter(|response| api_error(response).is_none()).and_then(|value| value["seq"].as_u64());
    sequence.filter(|sequence| *sequence > 0).ok_or_else(|| refusal(reply))
}

/// What a reply says that is no acknowledgement.
fn refusal(reply: &Reply) -> Ended {
    if reply.status == Some(StatusCode::NO_RESPONDERS) {
        return Ended::Failed(io::Error::other(
            "no stream takes the messages now: it has no leader, or was deleted",
        ));
    }
    let response: Option<Value> = serde_json::from_slice(&reply.payload).ok();
    match response.as_ref().and_then(api_error) {
        Some((code, text)) => {
            let error = io::Error::other(format!("the server refuses: {text}"));
            let is_in_doubt = WRONG_LAST_SEQUENCE.contains(&code) || code == BATCH_INCOMPLETE;
            if is_in_doubt { Ended::InDoubt(error) } else { Ended::Failed(error) }
        }
        None => Ended::InDoubt(io::Error::other("the server acknowledges in a way that bbq does not know")),
    }
}
