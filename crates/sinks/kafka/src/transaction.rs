//! Writes groups in transactions; or without them, if messages may come twice.
//!
//! Without transactions, everything is the same but for their begin and end and for the progress.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbq_sink::{
    CONFLICT, Known, ONE_APART, Outcomes, Positions, REFUSED_MAX, REFUSED_RUNS_MAX, Refused, Rejection,
    TooLarge,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tokio::time::timeout;

use super::client::Isolation;
use super::cluster::Cluster;
use super::connection::{Connection, Patience};
use super::context::{Context, Delivered, Failure};
use super::encoder::Message;
use super::known_end::Look;
use super::link::{Ended, KafkaLink};
use super::places::Places;
use super::problem::{Verdict, described, described_code, verdict};
use super::progress::Progress;
use super::records::Records;
use super::rights::Rights;
use super::sent::{FIRST, PROGRESS, Sent, SentMessage};
use super::settings::{KafkaSettings, Key, PROGRESS_PARTITION};
use super::shared::Shared;
use super::size::TransactionSize;
use super::thread::Call;
use super::topics::{KnownTopics, Place};

/// The shortest time between two transactions that are not full: there are at most 20 records about progress a second.
const COMMIT_INTERVAL: Duration = Duration::from_millis(50);
/// How often the events of librdkafka are served while there is nothing to send.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// For how long they are served then: each call with zero would serve only one.
const SERVE_FOR: Duration = Duration::from_millis(1);
/// How often the events of librdkafka are served while messages are on their way. In between the thread sleeps: `poll` of rdkafka spins
/// through the last millisecond of its time-out.
const DELIVERY_INTERVAL: Duration = Duration::from_millis(1);
/// The smallest batch that a topic may want.
const BATCH_BYTES_MIN: usize = 512;
/// Most messages that are given up before the topic has taken one: then it is the topic that is at fault.
const FIRST_REFUSALS_MAX: usize = 16;
/// Messages in a row that are given up between two waits, and at once: see `requests/refusals` of bbq-sink.
const REFUSED_IN_A_ROW_MAX: usize = 1000;
/// Stands for a message of the sink's own, which is alone in its transaction.
const OWN: usize = 1;

/// Why a message could not be given to librdkafka.
pub(super) enum Unsent {
    Failed(KafkaError),
    Ended(Ended),
}

/// What failures mean.
#[derive(Default)]
struct Judged {
    refused: Vec<((u32, u64), Code)>,
    /// The numbers of messages that were alone in their batch.
    too_large: Vec<(usize, Code)>,
    needs_smaller_batch: bool,
    /// Whether other messages of a batch with a refused one would be taken.
    has_innocent: bool,
    /// It is no matter of messages.
    trouble: Option<Code>,
}

/// Why nothing more is taken for a transaction.
enum Stop {
    /// A limit is reached.
    Full,
    /// The message is too large, and so were all before it: why, and what to do.
    Held(String),
    /// The message is not taken.
    Unsent(Unsent),
}

/// What becomes of a message.
enum Next {
    Sent,
    /// The topic has it.
    Taken,
    Rejected(Rejection),
}

/// What is known of messages before they are sent.
struct Looked<'a> {
    refused: &'a Refused,
    shared: &'a Shared,
    delivered: &'a HashSet<(u32, u64)>,
    message_bytes_max: usize,
    /// Those that are too large. The progress is to name them: after a kill the topic may take larger ones, and they are in no topic.
    set_apart: Vec<(u32, u64)>,
}

impl Looked<'_> {
    fn at(&mut self, record: (u32, u64), bytes: usize, known: Known) -> Result<Next, Stop> {
        if let Some(reason) = self.refused.reason(record) {
            return Ok(Next::Rejected(reason.rejection()));
        }
        if known.is_stored || self.delivered.contains(&record) {
            return Ok(Next::Taken);
        }
        if bytes <= self.message_bytes_max {
            return Ok(Next::Sent);
        }
        let why = too_large_text(bytes, self.message_bytes_max);
        if !self.shared.too_large.is_set_apart(record, Instant::now()) {
            return Err(Stop::Held(why));
        }
        self.set_apart.push(record);
        Ok(Next::Rejected(Rejection { why, has_letter: false }))
    }
}

impl Connection {
    /// Waits for groups, and writes a transaction with them.
    pub(super) fn transaction(&mut self, link: &mut KafkaLink, call: &Call<'_>) -> Result<(), Ended> {
        if self.settings.is_exactly_once && !link.shared.is_connected() {
            self.look(link, call)?;
        }
        if link.outgoing.is_taken() {
            self.receive(link, call, IDLE_INTERVAL)?;
            if link.outgoing.is_taken() {
                self.producer.poll(SERVE_FOR);
                return if self.settings.is_exactly_once { self.look(link, call) } else { Ok(()) };
            }
        }
        self.check_brokers(link, call)?;
        let outcomes = match self.fill(link, call) {
            Ok(outcomes) => outcomes,
            Err(Unsent::Ended(ended)) => return Err(ended),
            Err(Unsent::Failed(error)) => return self.recover(link, call, Some(&error)),
        };
        if !self.sent.is_empty() {
            self.wait_delivered(link, call)?;
            if self.producer.context().has_failures() {
                return self.recover(link, call, None);
            }
            if self.settings.is_exactly_once {
                // It says where they are.
                if let Err(ended) = self.send_progress(link) {
                    return if self.is_denied() { self.recover(link, call, None) } else { Err(ended) };
                }
                self.wait_delivered(link, call)?;
                if self.producer.context().has_failures() {
                    return self.recover(link, call, None);
                }
                self.check_brokers(link, call)?;
                self.commit(link, call).inspect_err(|_| link.shared.shrink())?;
            }
            link.shared.wrote();
            (link.has_taken, link.refused_in_a_row, link.held) = (true, 0, None);
            link.shared.too_large.taken();
            self.producer.context().forget_error();
            self.committed_at = Instant::now();
            let timeout = match self.settings.is_exactly_once {
                true => self.settings.transaction_timeout,
                false => super::connection::RESPONSE_TIMEOUT,
            };
            if self.settings.template.has_fields() {
                link.rights.prove(self.sent.topics());
            }
            let of = TransactionSize { messages: self.sent.len(), bytes: self.sent.bytes() };
            link.shared.taken(of, self.committed_at.duration_since(self.begun_at), timeout);
        }
        if !link.refused.is_empty() {
            link.shared.note_refused(&mut link.refused);
        }
        link.outgoing.settle(outcomes);
        link.settle();
        if !link.delivered.is_empty() {
            link.delivered.retain(|(lane, number)| *number >= self.positions.record(*lane));
        }
        Ok(())
    }

    /// Gives librdkafka the messages of the next transaction.
    fn fill(&mut self, link: &mut KafkaLink, call: &Call<'_>) -> Result<Outcomes, Unsent> {
        self.sent.clear();
        self.producer.context().forget_delivered();
        let (mut outcomes, mut transaction_bytes) = (Outcomes::default(), 0);
        let size = link.shared.size();
        let due = self.committed_at + COMMIT_INTERVAL;
        loop {
            while let Ok(group) = link.groups.try_recv() {
                link.push(group, &self.committed);
            }
            let Connection {
                producer, settings, positions, sent, message_bytes_max, topics, begun_at, ..
            } = self;
            let KafkaLink { outgoing, encoder, refused, shared, held, delivered, rights, .. } = link;
            let message_bytes_max = *message_bytes_max;
            let mut looked = Looked { refused, shared, delivered, message_bytes_max, set_apart: Vec::new() };
            let filled = outgoing.take(encoder, positions, &mut outcomes, |message, known| {
                if sent.len() >= size.messages || transaction_bytes >= size.bytes {
                    return Err(Stop::Full);
                }
                let (record, bytes) = (message.record, message.bytes);
                match looked.at(record, bytes, known)? {
                    Next::Sent => {}
                    Next::Taken => return Ok(None),
                    Next::Rejected(rejection) => return Ok(Some(rejection)),
                }
                if *held == Some(record) && !sent.is_empty() {
                    return Err(Stop::Full);
                }
                let topic = topic_of((topics, rights), message.topic, sent, settings, call)?;
                if sent.is_empty() {
                    *begun_at = Instant::now();
                    if settings.is_exactly_once {
                        let begun = producer.begin_transaction();
                        begun.map_err(|error| Stop::Unsent(Unsent::Failed(error)))?;
                    }
                }
                // In a transaction all are sent again.
                sent.add(record, bytes, topic, message.key.filter(|_| !settings.is_exactly_once));
                let Message { key, value, headers, time_ms, .. } = message;
                let mut to_send =
                    BaseRecord::with_opaque_to(topic, sent.len()).payload(value).timestamp(time_ms);
                (to_send.key, to_send.headers) = (key, headers);
                send(producer, call, to_send).map_err(Stop::Unsent)?;
                transaction_bytes += bytes;
                Ok(None)
            });
            if outgoing.has_conflict() {
                return Err(Unsent::Ended(Ended::Lost(io::Error::other(CONFLICT))));
            }
            let set_apart = looked.set_apart;
            if !set_apart.is_empty() {
                let why: Arc<str> = "the message was too large for the topic".into();
                set_apart.into_iter().for_each(|record| refused.add(record, &why));
                check_runs(link, &self.committed).map_err(Unsent::Ended)?;
            }
            match filled {
                Err(Stop::Unsent(unsent)) => return Err(unsent),
                // What is in front of it goes first: if it is taken, the message is set apart.
                Err(Stop::Held(why)) if self.sent.is_empty() && outcomes.is_empty() => {
                    return Err(Unsent::Ended(Ended::Failed(io::Error::other(TooLarge::held(&why)))));
                }
                Err(Stop::Full | Stop::Held(_)) => return Ok(outcomes),
                Ok(()) => {}
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(outcomes);
            }
            self.receive(link, call, left).map_err(Unsent::Ended)?;
        }
    }

    /// Looks whether the brokers have lost something, if it is time.
    fn look(&mut self, link: &KafkaLink, call: &Call<'_>) -> Result<(), Ended> {
        match self.known_end.look(&self.settings, call) {
            Look::NotYet => {}
            Look::There => {
                self.check_brokers(link, call)?;
                link.shared.set_connected(true);
            }
            // It is told when there is something to write.
            Look::Away => link.shared.set_connected(false),
            Look::Lost => {
                let text = "the brokers have less of the progress than they had";
                return Err(Ended::InDoubt(io::Error::other(text)));
            }
        }
        Ok(())
    }

    /// Brokers that start again may have left the last transaction open, which the next one would end, see [`super::left_open`]. Whoever
    /// reads must see all of it; else a new producer finds out why, and one that is on its way is not committed.
    fn check_brokers(&self, link: &KafkaLink, call: &Call<'_>) -> Result<(), Ended> {
        if !self.settings.is_exactly_once || !self.producer.context().take_were_away() {
            return Ok(());
        }
        let records = Records { settings: &self.settings, id: &link.shared.id, call };
        match records.sees(&self.last, Isolation::Committed)? {
            Some(seen) if seen.contains(&false) => {
                let text = "all brokers were away, and readers do not see all of the last transaction";
                Err(Ended::InDoubt(io::Error::other(text)))
            }
            _ => Ok(()),
        }
    }

    /// Waits for another group.
    fn receive(&self, link: &mut KafkaLink, call: &Call<'_>, patience: Duration) -> Result<(), Ended> {
        let received = call.runtime.block_on(async { timeout(patience, link.groups.recv()).await });
        match received {
            Ok(Some(group)) => link.push(group, &self.committed),
            Ok(None) => return Err(Ended::Stopped),
            Err(_) => {}
        }
        if call.is_stopped() { Err(Ended::Stopped) } else { Ok(()) }
    }

    pub(super) fn begin(&self) -> Result<(), Ended> {
        let begun = self.producer.begin_transaction();
        begun.map_err(|error| Ended::InDoubt(described(&self.settings, &error)))
    }

    pub(super) fn send_progress(&self, link: &KafkaLink) -> Result<(), Ended> {
        let places = |delivered: &[Delivered]| Places::of_sent(delivered, &self.sent);
        let progress = Progress {
            offset: 0,
            writer: link.shared.writer.clone(),
            positions: self.positions.clone(),
            refused: link.refused.without_letters(),
            places: self.producer.context().with_delivered(places),
            to_copy: Places::default(),
        };
        let value = progress.value();
        let record = BaseRecord::with_opaque_to(&self.settings.progress, PROGRESS)
            .partition(PROGRESS_PARTITION)
            .key(&link.shared.id)
            .payload(&value);
        self.producer.send(record).map_err(|(error, _)| Ended::InDoubt(described(&self.settings, &error)))
    }

    /// Waits until the brokers have what was sent, or something failed.
    pub(super) fn wait_delivered(&self, link: &mut KafkaLink, call: &Call<'_>) -> Result<(), Ended> {
        let context = self.producer.context();
        let (mut before, mut patience) = (self.producer.in_flight_count(), Patience::new());
        loop {
            self.producer.poll(Duration::ZERO);
            let left = self.producer.in_flight_count();
            // Without a transaction the others are delivered, although one failed.
            if left == 0 || (self.settings.is_exactly_once && context.has_failures()) {
                return Ok(());
            }
            if call.is_stopped() {
                return Err(Ended::Stopped);
            }
            // It also counts events of librdkafka's own, such as one of each attempt to connect.
            if left < before {
                (before, patience) = (left, Patience::new());
            } else if let Some(why) = patience.end(&self.settings, context) {
                link.shared.shrink();
                return Err(Ended::InDoubt(why));
            }
            call.pause(DELIVERY_INTERVAL);
        }
    }

    /// Takes the transaction back, and finds out what is to be left out of the next one.
    fn recover(
        &mut self,
        link: &mut KafkaLink,
        call: &Call<'_>,
        unsent: Option<&KafkaError>,
    ) -> Result<(), Ended> {
        let mut failures = self.producer.context().take_failures();
        if let Some(code) = unsent.and_then(KafkaError::rdkafka_error_code) {
            // librdkafka takes nothing more once a message has failed.
            if failures.is_empty() || verdict(code) != Verdict::Trouble {
                failures.push(Failure { number: self.sent.len(), code });
            }
        }
        // Without a transaction the others are delivered, if all were sent.
        let has_waited = !self.settings.is_exactly_once && unsent.is_none();
        if has_waited && failures.len() < self.sent.len() {
            link.has_taken = true;
            link.shared.too_large.taken();
        }
        self.check_fatal().inspect_err(|_| link.shared.shrink())?;
        let has_denied = self.leave_out_denied(link, &failures)?;
        let mut judged = self.judge(link, &failures);
        if has_denied && self.settings.is_exactly_once {
            judged.trouble = None;
        }
        let mut fits_now = false;
        if has_waited {
            self.note_delivered(link, &failures);
            fits_now = self.acquit(&mut judged, &failures);
        }
        if judged.trouble.is_some() {
            // Before the brokers are asked for anything more.
            link.shared.shrink();
        }
        if self.settings.is_exactly_once {
            // One round for each batch with a refused message would be too many.
            let late = self.judge(link, &self.abort(call)?);
            let room = REFUSED_IN_A_ROW_MAX.saturating_sub(judged.refused.len());
            judged.refused.extend(late.refused.into_iter().take(room));
            judged.too_large.extend(late.too_large);
            judged.has_innocent |= late.has_innocent;
        }
        if let Some(code) = judged.trouble {
            return Err(Ended::Failed(described_code(&self.settings, code)));
        }
        let Judged { refused, too_large, needs_smaller_batch, has_innocent, .. } = judged;
        let is_known = !refused.is_empty() || !too_large.is_empty() || needs_smaller_batch || fits_now;
        if !is_known && !has_denied {
            let text = "the brokers refuse a batch, and none of its messages";
            return Err(Ended::Failed(io::Error::other(text)));
        }
        self.set_apart(link, too_large)?;
        self.give_up(link, call, &refused, has_innocent)?;
        if has_waited {
            // Those that were given up hold up no others.
            self.note_delivered(link, &failures);
        }
        if needs_smaller_batch {
            link.shared.set_batch_bytes_max((self.batch_bytes / 2).max(BATCH_BYTES_MIN));
            link.shared.wrote();
            return Err(Ended::InDoubt(io::Error::other("the topic wants smaller batches")));
        }
        link.outgoing.again(&self.committed);
        self.positions.clone_from(&self.committed);
        Ok(())
    }

    /// Messages that were too large, and would fit now, are sent again. Returns whether there are such.
    fn acquit(&self, judged: &mut Judged, failures: &[Failure]) -> bool {
        let fits_now = self.sent.fits_now(&failures.iter().map(|failure| failure.number).collect());
        let before = judged.too_large.len();
        judged.too_large.retain(|(number, _)| !fits_now(*number));
        judged.too_large.len() < before
    }

    /// Notes what need not be sent again, when everything that did not fail is delivered.
    fn note_delivered(&self, link: &mut KafkaLink, failures: &[Failure]) {
        let failed: HashSet<usize> = failures.iter().map(|failure| failure.number).collect();
        let KafkaLink { delivered, refused, .. } = link;
        delivered.extend(self.sent.delivered(&failed, |record| refused.reason(record).is_some()));
    }

    /// Whether the brokers refuse the transaction because of the user's rights on a topic. librdkafka says so when it is to begin another
    /// one, which it does not.
    fn is_denied(&self) -> bool {
        let asks = self.settings.is_exactly_once && !self.sent.is_empty();
        let code = || self.producer.begin_transaction().err().and_then(|error| error.rdkafka_error_code());
        asks && code() == Some(Code::TopicAuthorizationFailed)
    }

    /// Leaves topics of a template out that the user may not write to. Returns `false` if that is not why something failed.
    fn leave_out_denied(&self, link: &mut KafkaLink, failures: &[Failure]) -> Result<bool, Ended> {
        if !self.is_denied() {
            return Ok(link.rights.leave_out(failures, &self.sent, &self.settings));
        }
        if !link.rights.leave_out_one(self.sent.topics(), &self.settings) {
            return Err(Ended::Failed(described_code(&self.settings, Code::TopicAuthorizationFailed)));
        }
        // A transaction without a partition cannot be taken back: the next connection goes on without the topic.
        link.shared.wrote();
        Ok(true)
    }

    /// What failures of this transaction mean.
    fn judge(&self, link: &KafkaLink, failures: &[Failure]) -> Judged {
        let mut judged = Judged {
            // The brokers blame some messages of a batch, and not all.
            has_innocent: failures.iter().any(|failure| failure.code == Code::InvalidDifferentRecord),
            ..Judged::default()
        };
        for &Failure { number, code } in failures {
            let message = self.sent.get(number);
            match (verdict(code), message) {
                (Verdict::Innocent, _) => {}
                (Verdict::Refused, Some(message)) => judged.refused.push((message.record, code)),
                // It was alone in its batch.
                (Verdict::TooLarge, Some(message)) if message.bytes > self.batch_bytes => {
                    judged.too_large.push((number, code));
                }
                (Verdict::TooLarge, Some(_)) if self.batch_bytes > BATCH_BYTES_MIN => {
                    judged.needs_smaller_batch = true;
                }
                (_, Some(message))
                    if code == Code::TopicAuthorizationFailed
                        && link.rights.is_denied(self.sent.topic_of(&message)) => {}
                _ => judged.trouble = Some(code),
            }
        }
        judged
    }

    /// Notes messages that are too large for the topic, as the brokers say, to be left out; unless so many were that the topic is at fault.
    fn set_apart(&self, link: &mut KafkaLink, mut too_large: Vec<(usize, Code)>) -> Result<(), Ended> {
        link.held = None;
        // Failures come by partition.
        too_large.sort_unstable_by_key(|(number, _)| *number);
        for (number, code) in too_large {
            let Some(SentMessage { record, .. }) = self.sent.get(number) else { continue };
            if link.shared.too_large.is_set_apart(record, Instant::now()) {
                link.refused.add(record, &refusal(code));
            } else if number > FIRST {
                link.held = Some(record);
                break;
            } else {
                let why = format!("{}; raise the topic's max.message.bytes", refusal(code));
                return Err(Ended::Failed(io::Error::other(TooLarge::held(&why))));
            }
        }
        check_runs(link, &self.committed)
    }

    /// Notes messages that the brokers refuse, to be left out. A topic that takes nothing, or refuses many in a row, may be at fault itself:
    /// nobody wants the whole spool among the dead letters, which have little room. Senders chose the messages, so the topic is asked.
    fn give_up(
        &self,
        link: &mut KafkaLink,
        call: &Call<'_>,
        refused: &[((u32, u64), Code)],
        has_innocent: bool,
    ) -> Result<(), Ended> {
        let Some((_, code)) = refused.first() else { return Ok(()) };
        let failed = |why: &str| Err(Ended::Failed(io::Error::other(format!("{}; {why}", refusal(*code)))));
        if refused.len() > REFUSED_IN_A_ROW_MAX {
            link.shared.shrink();
            return failed("they refused too many messages at once; check the settings of the topic");
        }
        let may_take = link.has_taken || has_innocent || self.committed != Positions::default();
        let is_doubtful = !may_take && link.refused_in_a_row + refused.len() > FIRST_REFUSALS_MAX;
        let are_many = link.refused_in_a_row >= REFUSED_IN_A_ROW_MAX;
        if *code == Code::InvalidTimestamp && (is_doubtful || are_many) {
            // The server has set the times, and not a sender.
            link.refused_in_a_row = 0;
            return failed(
                "the waiting messages are too old for the topic: raise its message.timestamp.before.max.ms",
            );
        }
        if self.settings.is_exactly_once && (is_doubtful || are_many) {
            if !self.takes_own(link, call)? {
                return failed(
                    "they also refuse a message of bbq's own: a compacted topic needs a key in each message, and \
                     message.timestamp.*.max.ms may be too short",
                );
            }
            (link.has_taken, link.refused_in_a_row) = (true, 0);
        } else if is_doubtful {
            if !link.apart.has_passed(ONE_APART, Instant::now()) {
                return failed(
                    "the topic has taken nothing yet: a compacted topic needs a key in each message, and message.timestamp.*.max.ms may \
                     be too short",
                );
            }
            link.refused.add(refused[0].0, &refusal(*code));
            return check_runs(link, &self.committed);
        } else if are_many {
            link.refused_in_a_row = 0;
            return failed(
                "they refused more than 1000 messages in a row, which are now dead letters: check the messages and the topic",
            );
        }
        link.refused_in_a_row += refused.len();
        for (record, code) in refused {
            link.refused.add(*record, &refusal(*code));
        }
        check_runs(link, &self.committed)
    }

    /// Whether the topic takes a message with nothing that a sender chose. The transaction is taken back: who reads committed messages does
    /// not see it.
    fn takes_own(&self, link: &mut KafkaLink, call: &Call<'_>) -> Result<bool, Ended> {
        self.begin()?;
        let mut record =
            BaseRecord::<[u8], [u8], usize>::with_opaque_to(&self.settings.topic, OWN).payload(b"bbq");
        record.key = (!matches!(self.settings.key, Key::None)).then_some(b"bbq");
        self.producer.send(record).map_err(|(error, _)| Ended::InDoubt(described(&self.settings, &error)))?;
        self.wait_delivered(link, call)?;
        let failure = self.producer.context().take_failures().first().copied();
        self.check_fatal()?;
        let _taken_back = self.abort(call)?;
        match failure {
            None => Ok(true),
            Some(failure) if verdict(failure.code) == Verdict::Refused => Ok(false),
            Some(failure) => Err(Ended::Failed(described_code(&self.settings, failure.code))),
        }
    }
}

fn check_runs(link: &mut KafkaLink, committed: &Positions) -> Result<(), Ended> {
    link.shared.note_refused(&mut link.refused);
    if link.refused.runs() > REFUSED_RUNS_MAX || link.refused.len() > REFUSED_MAX {
        // If they come again, they count as delivered.
        link.refused.forget_letters(committed);
        link.shared.note_refused(&mut link.refused);
    }
    if link.refused.runs() <= REFUSED_RUNS_MAX {
        return Ok(());
    }
    link.refused = Refused::default();
    link.shared.note_refused(&mut link.refused);
    Err(Ended::Failed(io::Error::other(format!(
        "more than {REFUSED_RUNS_MAX} separate groups of messages are refused; check the logs of the brokers and the settings of the topic"
    ))))
}

fn too_large_text(bytes: usize, max: usize) -> String {
    format!(
        "the message has {bytes} bytes with its key and headers, and the topic takes {max}; raise its max.message.bytes"
    )
}

fn refusal(code: Code) -> Arc<str> {
    format!("the brokers refuse the message: {code}").into()
}

/// The topic that a message goes to, which is `name` unless that is missing, or the user may not write to it.
fn topic_of<'a>(
    (topics, rights): (&mut KnownTopics, &Rights),
    name: &'a str,
    sent: &Sent,
    settings: &'a KafkaSettings,
    call: &Call<'_>,
) -> Result<&'a str, Stop> {
    if !settings.template.has_fields() {
        return Ok(name);
    }
    let mut place = if rights.is_denied(name) { Place::Other } else { topics.place(name) };
    if place == Place::Unknown {
        if !sent.is_empty() {
            // A transaction that is begun does not wait for a topic that is made.
            return Err(Stop::Full);
        }
        let cluster = Cluster::new(settings, call);
        let found = cluster.and_then(|cluster| topics.look(name, settings, &cluster));
        place = found.map_err(|ended| Stop::Unsent(Unsent::Ended(ended)))?;
    }
    let topic = if place == Place::Own { name } else { &settings.topic };
    if rights.may_join(topic, sent.topics()) { Ok(topic) } else { Err(Stop::Full) }
}

/// Gives a message to librdkafka. Waits while librdkafka has no room.
pub(super) fn send(
    producer: &BaseProducer<Context>,
    call: &Call<'_>,
    mut record: BaseRecord<'_, [u8], [u8], usize>,
) -> Result<(), Unsent> {
    let patience = std::cell::OnceCell::new();
    loop {
        let (error, unsent) = match producer.send(record) {
            Ok(()) => return Ok(()),
            Err(failed) => failed,
        };
        let is_full = error.rdkafka_error_code() == Some(Code::QueueFull);
        let patience = patience.get_or_init(Instant::now);
        if !is_full || patience.elapsed() >= super::connection::RESPONSE_TIMEOUT {
            return Err(Unsent::Failed(error));
        }
        if call.is_stopped() {
            return Err(Unsent::Ended(Ended::Stopped));
        }
        producer.poll(Duration::ZERO);
        call.pause(DELIVERY_INTERVAL);
        record = unsent;
    }
}
