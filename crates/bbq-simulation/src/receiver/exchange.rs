//! Requests to a receiver, and its answers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_format::{Format, Formatter};
use bbq_sink::{
    Answer, Exchange, NULL, Now, OpenError, Part, RequestOptions, RequestSink, Sink, SinkSpec, Target,
    Verdict, open_stepped_request_sink,
};
use bbq_storage::Storage;

use super::mood::Mood;
use super::options::Complaint;
use super::{Key, Receiver, State};
use crate::bug::Bug;
use crate::history::read_line;

/// Longer than any time-out.
const EVER: Duration = Duration::from_secs(1_000_000_000);
/// The longest time that a receiver takes for a request while it is well.
const QUICK: Duration = Duration::from_millis(100);
/// Most messages that are sent alone in a mood to take nothing: 16 that become dead letters, and one that waits.
const REFUSED_MAX: u64 = 17;
/// One more becomes a dead letter in this time.
const APART: Duration = Duration::from_secs(10);

/// Requests of a sink. `EMPTY_DECIDES` is as in [`Exchange`].
struct Requests<const EMPTY_DECIDES: bool>(Arc<Receiver>);

/// What a request comes to.
#[derive(Debug)]
enum End {
    Answer(Verdict),
    /// The receiver wants to be left alone for so long.
    LeaveAlone(Duration),
    Breaks,
}

/// A request on its way.
struct Request {
    receiver: Arc<Receiver>,
    number: u64,
    /// How long it takes.
    time: Duration,
    /// What the receiver takes when the time is over.
    takes: Vec<Key>,
    /// It takes that too when nobody waits for the answer any more.
    is_late: bool,
    /// Some of what was sent is taken.
    has_some: bool,
    /// What the answer says that the receiver has.
    confirms: Vec<Key>,
    end: Option<End>,
}

struct RequestTarget {
    name: String,
    receiver: Arc<Receiver>,
}

impl fmt::Debug for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Target for RequestTarget {
    fn takes_dead_letters(&self) -> bool {
        true
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let mut counts = self.receiver.state();
        (counts.opens, counts.opens_in_mood) = (counts.opens + 1, counts.opens_in_mood + 1);
        counts.took_empty = false;
        drop(counts);
        if self.receiver.options.empty_decides {
            self.open_with(Requests::<true>(Arc::clone(&self.receiver)), state)
        } else {
            self.open_with(Requests::<false>(Arc::clone(&self.receiver)), state)
        }
    }
}

impl RequestTarget {
    fn open_with<const EMPTY_DECIDES: bool>(
        &self,
        exchange: Requests<EMPTY_DECIDES>,
        state: Option<&str>,
    ) -> Result<Box<dyn Sink>, OpenError> {
        let options = self.receiver.options;
        let sink = RequestSink {
            name: self.name.clone(),
            servers: (0..options.servers).collect(),
            of: "receiver".to_owned(),
            check: "the receiver",
            keeps_cuts: false,
            options: RequestOptions {
                in_flight: options.in_flight,
                timeout: options.timeout,
                connection: EVER,
            },
            exchange,
        };
        open_stepped_request_sink(sink, state, &self.receiver.clock)
    }
}

impl<const EMPTY_DECIDES: bool> Exchange for Requests<EMPTY_DECIDES> {
    type Server = usize;
    const EMPTY_DECIDES: bool = EMPTY_DECIDES;

    fn formatter(&self) -> Formatter {
        Formatter::new(Format::Json)
    }

    async fn exchange(
        &self,
        to: &bbq_sink::Receiver<usize>,
        text: Vec<u8>,
        part: &Part,
    ) -> io::Result<Answer> {
        let request = self.0.begin(&text, part.records);
        self.0.clock.sleep(request.time).await;
        request.finish(to)
    }

    async fn takes_empty(&self, _: &bbq_sink::Receiver<usize>) -> bool {
        match self.0.takes_empty() {
            Some(takes) => takes,
            None => {
                self.0.clock.sleep(EVER).await;
                false
            }
        }
    }
}

impl Receiver {
    /// A sink of this name that delivers here.
    pub(crate) fn spec(self: &Arc<Self>, name: &str) -> SinkSpec {
        let target = RequestTarget { name: name.to_owned(), receiver: Arc::clone(self) };
        SinkSpec::of_target(name, &NULL, Arc::new(target))
    }

    /// Whether a request without a message is taken; `None` if there is no answer.
    fn takes_empty(&self) -> Option<bool> {
        let mut state = self.state();
        let takes = state.mood.takes_empty();
        state.has_seemed_well |= self.options.empty_decides && takes == Some(true);
        state.took_empty |= takes == Some(true);
        takes
    }

    /// A request comes. All that is left to chance is decided here.
    fn begin(self: &Arc<Self>, text: &[u8], records: u64) -> Request {
        let mut state = self.state();
        state.look(&self.options);
        state.take_late();
        state.requests += 1;
        let text = String::from_utf8_lossy(text);
        let keys: Vec<Key> = text.lines().filter_map(read_line).collect();
        if keys.len() as u64 != records {
            state.blame(format!("a request of {records} messages has {} lines", keys.len()));
        }
        keys.iter().for_each(|key| state.check_sent(key));
        let (takes, end) = self.answer(&mut state, &keys, text.len());
        if let Some(End::Answer(Verdict::Partly { rejected, .. })) = &end
            && *rejected < records
        {
            state.given_up.extend(keys.iter().filter(|key| self.is_poison(&key.2)));
        }
        self.note_refused(&mut state, &keys, &end);
        let random = &mut state.random;
        let quick = super::some_time(QUICK, random);
        let (mut time, mut takes_first, is_late) = (quick, random.one_in(2), random.one_in(2));
        match state.mood {
            Mood::Slow => time = super::some_time(self.options.timeout * 2, &mut state.random),
            Mood::Silent => time = EVER,
            _ => {}
        }
        takes_first |= state.mood == Mood::Silent && is_late;
        let keys_shown = keys.first().map(|(stream, sequence, _)| (*stream, *sequence));
        let confirms = match &end {
            Some(End::Answer(Verdict::Taken)) => keys,
            Some(End::Answer(Verdict::Partly { rejected, .. })) if *rejected < records => takes.clone(),
            _ => Vec::new(),
        };
        let mut request = Request {
            receiver: Arc::clone(self),
            number: state.requests,
            time,
            has_some: !takes.is_empty(),
            takes,
            is_late,
            confirms,
            end,
        };
        state.note(|| {
            let first = keys_shown.map_or_else(String::new, |(stream, sequence)| format!("{sequence} of {stream}"));
            let takes = request.takes.len();
            format!("request {}: {records} messages from {first} on, takes {takes}, first {takes_first}, late {is_late}, {:?}", request.number, request.end)
        });
        if takes_first {
            std::mem::take(&mut request.takes).into_iter().for_each(|key| state.take(key));
        }
        request
    }

    /// What the receiver takes of a request, and what it answers.
    fn answer(&self, state: &mut State, keys: &[Key], bytes: usize) -> (Vec<Key>, Option<End>) {
        let why = |text: &str| text.to_owned();
        match state.mood {
            Mood::Well | Mood::Slow => {
                let (takes, verdict) = self.verdict(state, keys, bytes);
                (takes, Some(End::Answer(verdict)))
            }
            Mood::Silent => (self.verdict(state, keys, bytes).0, None),
            Mood::Busy(None) => (Vec::new(), Some(End::Answer(Verdict::Later(why("busy"))))),
            Mood::Busy(Some(time)) => (Vec::new(), Some(End::LeaveAlone(time))),
            Mood::Breaking => {
                // What it never takes, it does not take now.
                let takes =
                    if state.random.one_in(2) { self.verdict(state, keys, bytes).0 } else { Vec::new() };
                (takes, Some(End::Breaks))
            }
            Mood::RefusesAll { .. } => (Vec::new(), Some(End::Answer(Verdict::Refused(why("not here"))))),
            Mood::FailsAll { .. } => (Vec::new(), Some(End::Answer(Verdict::Failed(why("failed"))))),
        }
    }

    /// The same of one that is well.
    fn verdict(&self, state: &State, keys: &[Key], bytes: usize) -> (Vec<Key>, Verdict) {
        if state.is_cured {
            return (keys.to_vec(), Verdict::Taken);
        }
        if bytes > self.options.bytes_max {
            return (Vec::new(), Verdict::TooLarge(format!("{bytes} bytes")));
        }
        let is_poison = |key: &&Key| self.is_poison(&key.2);
        let poison = keys.iter().filter(is_poison).count() as u64;
        let others = || keys.iter().filter(|key| !is_poison(key)).copied().collect();
        let first = || keys.iter().take_while(|key| !is_poison(key)).copied().collect();
        let why = "poison".to_owned();
        match self.options.complaint {
            _ if poison == 0 => (keys.to_vec(), Verdict::Taken),
            Complaint::Refuses => (Vec::new(), Verdict::Refused(why)),
            Complaint::TakesSome => (first(), Verdict::Refused(why)),
            Complaint::Counts => (others(), Verdict::Partly { rejected: poison, why }),
            Complaint::Fails => (Vec::new(), Verdict::Failed(why)),
        }
    }

    /// Notes messages that may become dead letters, and looks whether they are too many.
    fn note_refused(&self, state: &mut State, keys: &[Key], end: &Option<End>) {
        let records = keys.len() as u64;
        let is_refused = match end {
            Some(End::Answer(Verdict::Partly { rejected, .. })) => *rejected == records,
            Some(End::Answer(Verdict::Refused(_) | Verdict::TooLarge(_) | Verdict::Failed(_))) => {
                records == 1
            }
            _ => false,
        };
        if !is_refused {
            return;
        }
        for key in keys {
            *state.refusals.entry(*key).or_default() += 1;
            state.refused_in_mood.insert(*key);
        }
        if self.options.in_flight != Some(1) {
            return;
        }
        let refused = state.refused_in_mood.len() as u64;
        let has_asked = state.took_empty && state.opens_in_mood == 0 && self.options.servers == 1;
        let is_refusing = matches!(state.mood, Mood::RefusesAll { .. });
        let is_bounded =
            state.mood.is_useless() && (self.options.empty_decides || (has_asked && is_refusing));
        if is_bounded && refused > REFUSED_MAX * (1 + state.opens_in_mood) {
            state.blame(format!("{refused} messages were sent alone while it took nothing"));
        }
        let apart = if self.options.empty_decides { 0 } else { state.now.as_secs() / APART.as_secs() };
        let refused = state.refusals.len() as u64;
        if !state.has_seemed_well && is_refusing && refused > REFUSED_MAX * (1 + state.opens) + apart {
            state.blame(format!("{refused} messages were sent alone, and it has never taken one"));
        }
    }
}

impl State {
    /// Whether a message may be sent.
    fn check_sent(&mut self, key: &Key) {
        if !self.is_resending && self.settled.contains(key) {
            self.blame(format!("{key:?} is sent again, although its delivery is committed"));
        }
        let letters = self.refusals.get(key).copied().unwrap_or_default() + self.skips;
        let resent = self.resent.get(key).copied().unwrap_or_default();
        if self.is_resending && resent >= letters {
            self.blame(format!(
                "a dead letter is sent again: {key:?} was refused {letters} times, and resent {resent} times"
            ));
        }
    }
}

impl Request {
    fn finish(mut self, to: &bbq_sink::Receiver<usize>) -> io::Result<Answer> {
        let receiver = Arc::clone(&self.receiver);
        let mut state = receiver.state();
        std::mem::take(&mut self.takes).into_iter().for_each(|key| state.take(key));
        state.has_seemed_well |= !self.confirms.is_empty();
        state.answered.extend(std::mem::take(&mut self.confirms));
        let (number, end) = (self.number, &self.end);
        state.note(|| format!("answers request {number}: {end:?}"));
        let broken = || io::Error::new(io::ErrorKind::ConnectionReset, "the connection breaks");
        match self.end.take() {
            None | Some(End::Breaks) => Err(broken()),
            Some(End::LeaveAlone(time)) => {
                drop(state);
                to.leave_alone(time);
                Ok(Verdict::Later(format!("not for {time:?}")).into())
            }
            Some(End::Answer(verdict)) => {
                let is_refused = matches!(verdict, Verdict::Refused(_));
                let has_taken_some = is_refused && self.has_some;
                state.has_seemed_well |= has_taken_some;
                if is_refused && receiver.bug == Some(Bug::RefusalTakenForDelivery) {
                    return Ok(Verdict::Taken.into());
                }
                let answer = Answer::from(verdict);
                Ok(if has_taken_some { answer.with_some_taken() } else { answer })
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.is_late && !self.takes.is_empty() {
            let takes = std::mem::take(&mut self.takes);
            self.receiver.state().late.insert(self.number, takes);
        }
    }
}
