//! Publishes in atomic batches (ADR-50): each message is in the stream exactly once. See the module above for how.
//!
//! While the server commits batches, the messages of the next one are published. The message about the progress is behind those of a batch,
//! and only this one, or the mark behind it, needs to know the places of the batch before: see [`super::marks`].

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use async_nats::{HeaderMap, Message, Subject};
use bbq_sink::{CONFLICT, Positions, Refused, TAKEN_OVER};
use futures_util::StreamExt as _;
use hyper::body::Bytes;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{error, warn};

use super::batch::{Batch, expect, expect_of};
use super::link::{Ended, NatsLink};
use super::marks::Marks;
use super::permission::{find_other, note_refused};
use super::reply::{in_time, is_displaced, late, number_of, publish_alone, refusal, sequence_of};
use super::server::{Server, why_ended};
use super::shared::{Seen, random_id};
use super::stream::{Progress, Stream};
use super::taken::{Limits, Taken};

/// The shortest time between two batches that are not full: there are at most 200 messages about progress a second.
const COMMIT_INTERVAL: Duration = Duration::from_millis(5);
/// For so long, nobody else is likely to have published to the stream: later, the first batch goes alone, and says where the end is.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Bytes of the progress for messages that follow each other and are refused: lane, number and count.
const RUN_BYTES_MAX: usize = 64;
/// With more refused messages, those that are dead letters are forgotten: each takes 100 bytes, and each batch looks at them.
const LETTERS_MAX: usize = 10_000;
/// How often it is looked whether refused messages have become dead letters, while there is no room for others in the progress; and how long.
const LETTERS_INTERVAL: Duration = Duration::from_millis(100);
const LETTERS_PATIENCE: Duration = Duration::from_secs(30);
/// The number of replies about the first message of a batch, which is published with a reply so that a refusal is told.
const FIRST: u64 = 0;

/// Places in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    /// Of the last progress.
    progress: u64,
    /// Of the last message.
    last: u64,
}

/// A batch that the server is to commit.
struct Committing {
    batch: Batch,
    /// Where its progress and its last message are expected.
    places: Places,
    /// Whether it was sent behind another one on its way.
    is_behind: bool,
    /// Whether its last message is a mark, behind which another batch may be sent.
    has_mark: bool,
    /// How far the stream is then.
    positions: Positions,
    sent: Instant,
}

/// See the module.
pub(super) struct AtomicWriter {
    server: Server,
    progress: Subject,
    /// Unless one batch at a time is all that the stream allows.
    marks: Option<Marks>,
    epoch: String,
    /// See [`super::shared::Shared`].
    writer: String,
    /// As the server last told.
    known: Places,
    /// With everything on its way.
    expected: Places,
    /// How far the stream is, as the server last told; nothing before it is sent again.
    stored: Positions,
    /// How far the stream is with everything that is taken.
    positions: Positions,
    payload_max: usize,
    /// See [`super::shared::Shared::judge`].
    judged: usize,
    staged: Batch,
    /// The oldest is in front.
    committing: VecDeque<Committing>,
    /// The first one that was refused because of the places, as others published in between; with all behind it.
    displaced: Option<u64>,
    /// When the last batch was sent.
    committed: Instant,
    /// When the server last told of places.
    heard: Instant,
    /// A batch was displaced, and the server has taken none since.
    is_careful: bool,
    /// See [`super::shared::Shared::commits`].
    commits: u64,
    /// Since when nothing is taken, as the progress has no room for another message that is set apart.
    full_since: Option<Instant>,
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
        let (sequence, refused) =
            found.map_or((0, Refused::default()), |found| (found.sequence, found.refused));
        link.refused.merge(refused);
        link.refused.limit(&positions);
        link.shared.sort_refused(&mut link.refused);
        let last_sequence = stream.last_sequence.max(sequence);
        if !is_own {
            // What is left was before it.
            link.shared.forget_writing();
        }
        let now = Seen { created: stream.created.clone(), sequence, positions: positions.clone() };
        let lost = link.shared.see(&now);
        if lost > 0 {
            let text = match seen.created == stream.created {
                true => {
                    "the server lost messages that it had acknowledged; sending again those that are still in the spool"
                }
                false => {
                    "this is not the stream that earlier messages went to; sending again those that are still in the spool"
                }
            };
            warn!(sink = link.target.name, stream = stream.name, messages = lost, "{text}");
            if has_written {
                return Err(Ended::Lost(io::Error::other(text)));
            }
        }
        let largest = server.client.max_payload().min(stream.message_bytes_max.unwrap_or(usize::MAX));
        let payload = Progress::payload(&link.shared.writer, &positions, &link.refused.without_letters());
        let payload_max = link.target.encoding.payload_max(largest, payload.len())?;
        link.outgoing.rewind(&positions);
        let known = Places { progress: sequence, last: last_sequence };
        let mut writer =
            AtomicWriter::new(link, server, progress, known, positions, payload_max, stream.has_marks)?;
        if !link.shared.is_writer() {
            writer.take_over(link, payload).await?;
        }
        Ok(writer)
    }

    /// Of a connection that has told how far the stream is.
    fn new(
        link: &NatsLink,
        server: Server,
        progress: String,
        known: Places,
        positions: Positions,
        payload_max: usize,
        has_marks: bool,
    ) -> io::Result<AtomicWriter> {
        let epoch = random_id()?;
        let now = Instant::now();
        Ok(AtomicWriter {
            server,
            marks: has_marks.then(|| Marks::new(&progress, &epoch)),
            progress: progress.into(),
            writer: link.shared.writer.clone(),
            known,
            expected: known,
            stored: positions.clone(),
            positions,
            payload_max,
            judged: link.shared.judge(payload_max),
            staged: Batch::new(FIRST + 1, &epoch, link.pipeline.bytes),
            epoch,
            committing: VecDeque::new(),
            displaced: None,
            committed: now,
            heard: now,
            is_careful: false,
            commits: link.shared.commits(),
            full_since: None,
        })
    }

    /// Publishes progress, so that the batches of earlier writers are refused from now on.
    async fn take_over(&mut self, link: &NatsLink, payload: String) -> Result<(), Ended> {
        let place = publish_alone(&mut self.server, &self.progress, self.known.progress, payload).await?;
        self.known = Places { progress: place, last: place };
        self.expected = self.known;
        self.heard = Instant::now();
        link.shared.wrote(place, &self.positions);
        Ok(())
    }

    /// Publishes groups until the connection fails.
    pub(super) async fn write(mut self, link: &mut NatsLink) -> Result<Infallible, Ended> {
        let ended = match self.publish(link).await {
            Ok(never) => match never {},
            Err(ended) => note_refused(link, &mut self.server, ended).await,
        };
        if let Ended::InDoubt(error) = &ended {
            let bytes = self.committing.iter().map(|committing| committing.batch.bytes);
            let bytes = bytes.fold(self.staged.bytes, usize::max);
            link.ended_in_doubt(error, self.committing.len(), bytes);
        }
        Err(ended)
    }

    async fn publish(&mut self, link: &mut NatsLink) -> Result<Infallible, Ended> {
        loop {
            while let Ok(group) = link.groups.try_recv() {
                link.push(group, &self.stored);
            }
            if self.displaced.is_some() && self.committing.is_empty() {
                self.begin_again(link).await?;
            }
            let staged = self.stage(link).await?;
            let committed = self.commit(link).await?;
            link.settle();
            if staged || committed {
                continue;
            }
            let is_idle = self.committing.is_empty();
            let is_waiting = is_idle && !self.staged.outcomes.is_empty();
            let commit_at = self.committed + COMMIT_INTERVAL;
            let Server { replies, ended, patience, .. } = &mut self.server;
            let patience = *patience;
            let deadline = self.committing.front().map(|front| front.sent.max(self.heard) + patience);
            tokio::select! {
                biased;
                reply = replies.next() => {
                    let gone = || Ended::InDoubt(io::Error::other("the connection ended"));
                    let reply = reply.ok_or_else(gone)?;
                    self.reply(link, &reply)?;
                }
                why = why_ended(ended) => {
                    if self.marks.as_ref().is_some_and(|marks| marks.is_named_in(&why.to_string())) {
                        let sink = link.target.name.as_str();
                        warn!(sink, error = %why, "sending batches one by one: the user may not publish to the subjects that keep batches in order");
                        link.pipeline.forbidden();
                    }
                    return Err(Ended::InDoubt(why));
                }
                Some(group) = link.groups.recv() => link.push(group, &self.stored),
                () = sleep_until(commit_at), if is_waiting => {}
                () = sleep(LETTERS_INTERVAL), if self.full_since.is_some() => {}
                () = sleep_until(deadline.unwrap_or(commit_at)), if deadline.is_some() => return Err(late(patience)),
            }
        }
    }

    /// Goes on behind what the stream has, after everything on its way was answered.
    async fn begin_again(&mut self, link: &mut NatsLink) -> Result<(), Ended> {
        self.displaced = None;
        self.is_careful = true;
        link.pipeline.refused();
        self.expected = self.known;
        self.positions.clone_from(&self.stored);
        link.outgoing.again(&self.stored);
        link.refused.limit(&self.stored);
        let next = Batch::new(self.staged.number + 1, &self.epoch, link.pipeline.bytes);
        let mut staged = std::mem::replace(&mut self.staged, next);
        if staged.messages == 0 {
            return Ok(());
        }
        // A message that does not follow ends the batch, of which the server would hold what it has for ten seconds. It has few places.
        let mut headers = HeaderMap::new();
        staged.messages += 1;
        staged.add_headers(&mut headers);
        let ended = self.server.client.publish_with_headers(self.progress.clone(), headers, Bytes::new());
        in_time(self.server.patience, ended).await
    }

    /// Publishes messages of the next batch. Returns whether there were any.
    async fn stage(&mut self, link: &mut NatsLink) -> Result<bool, Ended> {
        if self.staged.is_full() || link.outgoing.is_taken() || self.displaced.is_some() {
            return Ok(false);
        }
        let (messages, bytes) = self.staged.room();
        let refused = self.room_for_refused(link);
        let limits = Limits { messages, bytes, payload: self.payload_max, judged: self.judged, refused };
        let taken = Taken::take(link, limits, &mut self.positions);
        if link.outgoing.has_conflict() {
            return Err(Ended::Lost(io::Error::other(CONFLICT)));
        }
        if taken.is_empty() {
            self.look_why_nothing_is_taken(taken.held, refused)?;
            return Ok(false);
        }
        self.full_since = None;
        let Taken { messages, bytes, outcomes, refused, forbidden, .. } = taken;
        refused.add_to(&mut link.refused);
        if forbidden.is_some() {
            self.staged.forbidden = forbidden;
        }
        self.staged.bytes += bytes;
        self.staged.outcomes.append(outcomes);
        let (server, staged) = (&self.server, &mut self.staged);
        let publish = async {
            for mut message in messages {
                staged.add_headers(&mut message.headers);
                let (subject, payload) = (message.subject, message.payload);
                staged.subject = Some(subject.clone());
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

    /// How many messages may be refused in what is taken next: the progress is to name them until they are dead letters.
    fn room_for_refused(&mut self, link: &mut NatsLink) -> usize {
        let commits = link.shared.commits();
        if self.commits != commits {
            self.commits = commits;
            link.shared.sort_refused(&mut link.refused);
        }
        if link.refused.len() > LETTERS_MAX {
            // If they come again, they count as delivered.
            link.refused.forget_letters(&self.stored);
        }
        link.refused.room(self.payload_max / RUN_BYTES_MAX)
    }

    /// Nothing was taken: the next message waits for others, or for room in the progress.
    fn look_why_nothing_is_taken(&mut self, held: Option<String>, room: usize) -> Result<(), Ended> {
        let is_idle = self.committing.is_empty() && self.staged.outcomes.is_empty();
        if let Some(why) = held {
            return if is_idle { Err(Ended::Failed(io::Error::other(why))) } else { Ok(()) };
        }
        if room == 0 {
            let since = *self.full_since.get_or_insert_with(Instant::now);
            if is_idle && since.elapsed() >= LETTERS_PATIENCE {
                let text = "too many messages have subjects to which the user may not publish, or are too \
                            large; give it the permission, or raise the limit";
                return Err(Ended::Failed(io::Error::other(text)));
            }
        }
        Ok(())
    }

    /// Has the server commit what is staged, if it is time. Returns whether there is room for another batch.
    async fn commit(&mut self, link: &mut NatsLink) -> Result<bool, Ended> {
        let is_full = self.staged.is_full();
        let may_be_sent = match self.committing.back() {
            None => is_full || self.committed.elapsed() >= COMMIT_INTERVAL,
            Some(before) => is_full && before.has_mark && self.committing.len() < link.pipeline.batches,
        };
        if self.staged.outcomes.is_empty() || !may_be_sent || self.displaced.is_some() {
            return Ok(false);
        }
        if self.staged.messages == 0
            && let Some(subject) = &self.staged.forbidden
            && !link.shared.forbidden().has_other()
        {
            if !self.committing.is_empty() {
                return Ok(false);
            }
            find_other(link, &mut self.server, subject).await?;
        }
        let next = Batch::new(self.staged.number + 1, &self.epoch, link.pipeline.bytes);
        let batch = std::mem::replace(&mut self.staged, next);
        if batch.messages == 0 && batch.forbidden.is_none() {
            // The stream had everything, or nothing of it can be sent.
            link.outgoing.settle(batch.outcomes);
            return Ok(true);
        }
        let before = self.committing.back().map(|before| before.batch.number);
        let is_behind = before.is_some();
        let is_fresh = is_behind || (!self.is_careful && self.heard.elapsed() < FRESH_FOR);
        let is_followed = is_full && is_fresh && link.pipeline.batches > 1;
        let has_mark = self.marks.is_some() && (is_behind || is_followed);
        self.publish_end(batch, before, has_mark, &link.refused.without_letters()).await?;
        Ok(true)
    }

    /// Publishes what ends a batch: the progress, and the mark. `before` is the number of the batch on its way that it is behind.
    async fn publish_end(
        &mut self,
        mut batch: Batch,
        before: Option<u64>,
        has_mark: bool,
        refused: &Refused,
    ) -> Result<(), Ended> {
        let expected = self.expected;
        let progress = expected.last + batch.messages as u64 + 1;
        let places = Places { progress, last: progress + u64::from(has_mark) };
        let payload = Progress::payload(&self.writer, &self.positions, refused);
        let reply = format!("{}.{}", self.server.inbox, batch.number);
        let client = &self.server.client;
        let mut of_progress = HeaderMap::new();
        expect(&mut of_progress, expected.progress);
        let publish = async {
            let Some(marks) = self.marks.as_ref().filter(|_| has_mark) else {
                batch.add_last_headers(&mut of_progress);
                let subject = self.progress.clone();
                return client
                    .publish_with_reply_and_headers(subject, reply, of_progress, payload.into())
                    .await;
            };
            batch.add_headers(&mut of_progress);
            client.publish_with_headers(self.progress.clone(), of_progress, payload.into()).await?;
            let mut of_mark = HeaderMap::new();
            batch.add_last_headers(&mut of_mark);
            if let Some(before) = before {
                expect_of(&mut of_mark, &marks.subject(before), expected.last);
            }
            let subject = marks.subject(batch.number);
            client.publish_with_reply_and_headers(subject, reply, of_mark, Bytes::new()).await
        };
        in_time(self.server.patience, publish).await?;
        self.committed = Instant::now();
        self.expected = places;
        let (positions, sent) = (self.positions.clone(), self.committed);
        let is_behind = before.is_some();
        self.committing.push_back(Committing { batch, places, is_behind, has_mark, positions, sent });
        Ok(())
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
        let is_of = |committing: &Committing| Some(committing.batch.number) == number;
        let Some(index) = self.committing.iter().position(is_of) else { return Ok(()) };
        let Some(committing) = self.committing.remove(index) else { return Ok(()) };
        self.heard = Instant::now();
        if committing.is_behind && is_displaced(reply) {
            let number = committing.batch.number;
            self.displaced = Some(self.displaced.map_or(number, |first| first.min(number)));
            return Ok(());
        }
        let last = sequence_of(reply)?;
        if index > 0 || self.displaced.is_some_and(|first| first <= committing.batch.number) {
            let text = "the server took a batch, but not the batch before it";
            error!(sink = link.target.name, "{text}");
            return Err(Ended::InDoubt(io::Error::other(text)));
        }
        self.known = Places { progress: last - u64::from(committing.has_mark), last };
        self.stored.clone_from(&committing.positions);
        if self.committing.is_empty() {
            self.expected = self.known;
        } else if self.known != committing.places {
            // Others published in between: what is on its way is going to be refused, and nothing may follow it.
            self.displaced.get_or_insert(committing.batch.number + 1);
        }
        self.is_careful = false;
        link.pipeline.committed();
        if let Some(subject) = committing.batch.subject.clone() {
            link.shared.too_large.taken();
            link.shared.forbidden().taken(Some(subject));
        }
        link.batch_taken(committing.batch.bytes, committing.sent.elapsed(), self.server.patience);
        link.shared.wrote(self.known.progress, &committing.positions);
        link.outgoing.settle(committing.batch.outcomes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_server;

    const MIB: usize = 1024 * 1024;

    fn writer(link: &NatsLink, server: Server) -> AtomicWriter {
        let known = Places { progress: 0, last: 0 };
        let progress = "bbq.progress.1".to_owned();
        AtomicWriter::new(link, server, progress, known, Positions::default(), 744, true).unwrap()
    }

    fn committing(number: u64, bytes: usize) -> Committing {
        let mut batch = Batch::new(number, "1", MIB);
        (batch.messages, batch.bytes) = (1, bytes);
        let places = Places { progress: 2 * number, last: 2 * number };
        let (is_behind, has_mark) = (false, false);
        Committing {
            batch,
            places,
            is_behind,
            has_mark,
            positions: Positions::default(),
            sent: Instant::now(),
        }
    }

    #[tokio::test]
    async fn a_batch_that_is_late_is_smaller_on_the_next_connection() {
        let (mut link, mut server) = fake_server::connect("").await;
        server.patience = Duration::from_millis(50);
        let mut first = writer(&link, server);
        assert_eq!(first.staged.room().1, MIB);
        first.committing.push_back(committing(1, MIB));
        let ended = first.write(&mut link).await;
        assert!(matches!(ended, Err(Ended::InDoubt(_))));
        let (_, server) = fake_server::connect("").await;
        let mut next = writer(&link, server);
        assert_eq!(next.staged.room().1, MIB / 2);
        // It is taken at once.
        next.committing.push_back(committing(1, MIB / 2));
        let (inbox, payload) = (&next.server.inbox, Bytes::from_static(br#"{"seq":2}"#));
        let reply = Message {
            subject: format!("{inbox}.1").into(),
            reply: None,
            payload,
            headers: None,
            status: None,
            description: None,
            length: 0,
        };
        assert!(next.reply(&mut link, &reply).is_ok());
        assert_eq!(link.pipeline.bytes, MIB);
    }
}
