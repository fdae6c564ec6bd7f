//! Publishes in atomic batches (ADR-50): each message is in the stream exactly once. See the module above for how.
//!
//! While the server commits batches, the messages of the next one are published. The message about the progress is behind those of a batch, and
//! only this one, or the mark behind it, needs to know the place of the one before it. [`marks`] says how several batches are on their way at once.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use async_nats::{HeaderMap, Message, Subject};
use bbq_sink::{CONFLICT, Positions, TAKEN_OVER};
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::batch::{Batch, expect};
use super::link::{Ended, NatsLink};
use super::marks;
use super::reply::{in_time, late, number_of, publish_alone, refusal, sequence_of};
use super::server::{Server, why_ended};
use super::shared::Seen;
use super::stream::{Progress, Stream, marks_subject};
use super::taken::{Limits, Taken};

/// The shortest time between two batches that are not full: there are at most 200 messages about progress a second.
const COMMIT_INTERVAL: Duration = Duration::from_millis(5);
/// The number of replies about the first message of a batch, which is published with a reply so that a refusal is told.
const FIRST: u64 = 0;

/// A batch that the server is to commit.
struct Committing {
    batch: Batch,
    /// Where its last message is expected in the stream.
    last: u64,
    /// Whether that is a mark behind which another batch may be sent.
    is_followed: bool,
    /// Whether it was sent behind another one on its way.
    is_behind: bool,
    has_mark: bool,
    /// How far the stream is then.
    positions: Positions,
    deadline: Instant,
}

/// See the module.
pub(super) struct AtomicWriter {
    server: Server,
    progress: Subject,
    /// The subject of the marks of this connection, if the stream has it.
    marks: Option<Subject>,
    epoch: u64,
    /// The place of the last progress in the stream.
    sequence: u64,
    /// The place of the last message that is known of, or expected.
    last: u64,
    /// How far the stream was when the connection began.
    stored: Positions,
    /// How far the stream is with everything that is taken.
    positions: Positions,
    payload_max: usize,
    staged: Batch,
    /// The oldest is in front.
    committing: VecDeque<Committing>,
    /// When the last batch was sent.
    committed: Instant,
}

impl AtomicWriter {
    /// Finds out how far the stream is, and makes this the only writer of its progress.
    pub(super) async fn begin(
        link: &mut NatsLink,
        mut server: Server,
        stream: Stream,
        progress: String,
    ) -> Result<AtomicWriter, Ended> {
        let seen = link.shared.seen();
        let has_written = link.shared.is_writer();
        let mut found = stream.progress(&mut server, &progress).await?;
        check_writer(link, &stream, &progress, found.as_ref())?;
        let takes_over = !link.shared.is_writer() || link.has_marked;
        let last_epoch = found.as_ref().map_or(0, |found| found.epoch);
        if takes_over && last_epoch > 0 {
            marks::end(&mut server, &stream, &progress, last_epoch).await?;
            // Its last batches may have come meanwhile.
            found = stream.progress(&mut server, &progress).await?;
            check_writer(link, &stream, &progress, found.as_ref())?;
        }
        let positions = match &found {
            Some(found) => found.positions.clone(),
            // It was deleted, with the messages before it.
            None if seen.created == stream.created && stream.first_sequence > seen.sequence => {
                seen.positions.clone()
            }
            None => Positions::default(),
        };
        let sequence = found.map_or(0, |found| found.sequence);
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
        let epoch = last_epoch + u64::from(takes_over);
        let payload = Progress::payload(&link.shared.writer, &positions, epoch);
        if payload_max < payload.len() {
            return Err(Ended::Failed(io::Error::other(format!(
                "the server takes messages of {largest} bytes with headers, which is too little; raise its max_payload, or the \
                 stream's max_msg_size"
            ))));
        }
        link.outgoing.rewind(&positions);
        let marks = Some(marks_subject(&progress, epoch)).filter(|_| stream.has_marks);
        let mut writer = AtomicWriter {
            server,
            marks: marks.map(Subject::from),
            progress: progress.into(),
            epoch,
            sequence,
            last: sequence,
            stored: positions.clone(),
            positions,
            payload_max,
            staged: Batch::new(FIRST + 1, &link.shared.writer),
            committing: VecDeque::new(),
            committed: Instant::now(),
        };
        if takes_over {
            writer.take_over(link, payload).await?;
        }
        link.has_marked = false;
        Ok(writer)
    }

    /// Publishes progress, so that the batches of earlier writers are refused from now on.
    async fn take_over(&mut self, link: &NatsLink, payload: String) -> Result<(), Ended> {
        self.sequence = publish_alone(&mut self.server, &self.progress, self.sequence, payload).await?;
        self.last = self.sequence;
        link.shared.wrote(self.sequence, &self.positions);
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
            let is_waiting = self.committing.is_empty() && !self.staged.outcomes.is_empty();
            let commit_at = self.committed + COMMIT_INTERVAL;
            let deadline = self.committing.front().map(|committing| committing.deadline);
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
        let (messages, bytes) = self.staged.room(self.last);
        if messages == 0 || link.outgoing.is_taken() {
            return Ok(false);
        }
        let limits = Limits { messages, bytes, payload: self.payload_max };
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
                staged.add_headers(&mut message.headers);
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
        let is_full = self.staged.is_full(self.last);
        let may_be_sent = match self.committing.back() {
            None => is_full || self.committed.elapsed() >= COMMIT_INTERVAL,
            Some(before) => is_full && before.is_followed && self.committing.len() < link.pipeline.batches,
        };
        if self.staged.outcomes.is_empty() || !may_be_sent {
            return Ok(false);
        }
        let next = Batch::new(self.staged.number + 1, &link.shared.writer);
        let mut batch = std::mem::replace(&mut self.staged, next);
        if batch.messages == 0 {
            // The stream had everything, or nothing of it can be sent.
            link.outgoing.settle(batch.outcomes);
            return Ok(true);
        }
        let is_behind = !self.committing.is_empty();
        let is_followed = is_full && batch.is_even(self.last) && link.pipeline.batches > 1;
        let mark = self.marks.clone().filter(|_| is_behind || is_followed);
        let last = batch.mark(self.last) - u64::from(mark.is_none());
        let (before, has_mark) = (self.last, mark.is_some());
        let payload = Progress::payload(&link.shared.writer, &self.positions, self.epoch);
        let reply = format!("{}.{}", self.server.inbox, batch.number);
        let mut messages = vec![(self.progress.clone(), payload, (!is_behind).then_some(self.sequence))];
        messages.extend(mark.map(|subject| (subject, String::new(), is_behind.then_some(before))));
        let (client, last_message) = (&self.server.client, messages.pop());
        let publish = async {
            for (subject, payload, expected) in messages {
                let mut headers = HeaderMap::new();
                batch.add_headers(&mut headers);
                expected.inspect(|last| expect(&mut headers, *last));
                client.publish_with_headers(subject, headers, payload.into()).await?;
            }
            if let Some((subject, payload, expected)) = last_message {
                let mut headers = HeaderMap::new();
                batch.add_last_headers(&mut headers);
                expected.inspect(|last| expect(&mut headers, *last));
                client.publish_with_reply_and_headers(subject, reply, headers, payload.into()).await?;
            }
            Ok::<(), async_nats::PublishError>(())
        };
        in_time(self.server.patience, publish).await?;
        link.has_marked |= has_mark;
        self.committed = Instant::now();
        self.last = last;
        let deadline = self.committed + self.server.patience;
        let (is_followed, positions) = (is_followed && has_mark, self.positions.clone());
        let committing = Committing { batch, last, is_followed, is_behind, has_mark, positions, deadline };
        self.committing.push_back(committing);
        Ok(true)
    }

    fn reply(&mut self, link: &mut NatsLink, reply: &Message) -> Result<(), Ended> {
        let number = number_of(reply);
        if number == Some(FIRST) {
            // A server that is content sends nothing, or an empty message.
            return if reply.payload.is_empty() && reply.status.is_none() {
                Ok(())
            } else {
                Err(refusal(reply))
            };
        }
        if self.committing.front().is_none_or(|committing| Some(committing.batch.number) != number) {
            return match self.committing.is_empty() {
                true => Ok(()),
                false => Err(Ended::InDoubt(io::Error::other(
                    "the server acknowledges a batch before an earlier one",
                ))),
            };
        }
        let Some(committing) = self.committing.pop_front() else { return Ok(()) };
        let last = sequence_of(reply).inspect_err(|ended| {
            if committing.is_behind && matches!(ended, Ended::InDoubt(_)) {
                link.pipeline.refused();
            }
        })?;
        self.sequence = last - u64::from(committing.has_mark);
        if self.committing.is_empty() {
            self.last = last;
        } else if last != committing.last
            && let Some(back) = self.committing.back_mut()
        {
            // Somebody else published in between: what is behind it is refused.
            back.is_followed = false;
        }
        link.batches += 1;
        link.pipeline.committed();
        link.shared.wrote(self.sequence, &committing.positions);
        link.outgoing.settle(committing.batch.outcomes);
        Ok(())
    }
}

/// An error if another writer has taken over from this one. What it wrote before that of another is not there any more.
fn check_writer(
    link: &NatsLink,
    stream: &Stream,
    progress: &str,
    found: Option<&Progress>,
) -> Result<(), Ended> {
    match found {
        Some(found) if found.writer == link.shared.writer => return Ok(()),
        Some(found)
            if link.shared.seen().created == stream.created && link.shared.is_after_own(found.sequence) =>
        {
            return Err(Ended::Failed(io::Error::other(format!(
                "another bbq server has taken over {progress}; {TAKEN_OVER}"
            ))));
        }
        _ => {}
    }
    link.shared.forget_writing();
    Ok(())
}
