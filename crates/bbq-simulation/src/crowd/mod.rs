//! A crowd around one server with a table of few streams: clients of HTTP that number their requests, several on their way at a time;
//! another server, which passes on once more what clients have sent; and a stranger, who sends under the names of others, or under very
//! many names of its own.
//!
//! What is checked, beside what every world checks:
//!
//! - an answer 200 means that the records come out, also where they were known; a request that may be sent is not refused;
//! - no record of a stranger comes out under a number of somebody else, and none is answered with 200;
//! - a stranger with very many streams makes the server forget none of others.
//!
//! In worlds without a stranger, the server may also forget streams of those who come again.

mod around;
mod requester;
mod stranger;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use crate::bug::Bug;
use crate::history::Violation;
use crate::note;
use crate::random::Random;
use crate::server::Answer;
use crate::tokens::{REQUESTERS_MAX, STRANGER, token};
pub(crate) use around::Around;
use requester::Requester;
use stranger::Stranger;

/// See the module.
pub(crate) struct Crowd {
    random: Random,
    requesters: Vec<Requester>,
    stranger: Option<Stranger>,
    /// By number of a request: who has sent it, and the number of its first record. Those of the stranger have none.
    on_their_way: BTreeMap<u64, (usize, u64)>,
    /// Requests of the stranger for streams of others.
    attacks: VecDeque<u64>,
    requests: u64,
    forgotten: u64,
}

impl Crowd {
    pub(crate) fn new(mut random: Random, clients: usize, has_stranger: bool, bug: Option<Bug>) -> Crowd {
        let count = random.between(1, REQUESTERS_MAX as u64) as usize;
        let requesters =
            (0..count).map(|index| Requester::new(index, clients + index, &mut random)).collect();
        let stranger = Stranger::new(clients + count, has_stranger, bug == Some(Bug::ForgetsByAge));
        Crowd {
            requesters,
            stranger: Some(stranger),
            random,
            on_their_way: BTreeMap::new(),
            attacks: VecDeque::new(),
            requests: 0,
            forgotten: 0,
        }
    }

    /// Somebody acts, by chance.
    pub(crate) fn act(&mut self, around: &mut Around<'_>) -> Result<(), Violation> {
        let requester = self.random.index(self.requesters.len());
        match self.random.below(8) {
            0 => self.requesters[requester].make(&mut self.random),
            1..=4 => self.send(requester, None, around)?,
            // A connection of HTTP breaks, and with it goes the answer.
            5 if self.random.one_in(8) => drop(self.on_their_way.pop_first()),
            6 => self.act_of_stranger(around)?,
            _ => {}
        }
        self.hear(around)
    }

    /// Sends what is not answered, of every requester in order, and hears the answers.
    pub(crate) fn round(&mut self, around: &mut Around<'_>) -> Result<(), Violation> {
        for requester in 0..self.requesters.len() {
            for first in self.requesters[requester].waiting() {
                self.send(requester, Some(first), around)?;
            }
        }
        self.hear(around)
    }

    /// Whether all requests were answered.
    pub(crate) fn is_drained(&self) -> bool {
        self.requesters.iter().all(|requester| requester.waiting().is_empty())
    }

    /// What the crowd waits for, for error messages.
    pub(crate) fn describe(&self) -> String {
        let waiting: Vec<Vec<u64>> = self.requesters.iter().map(Requester::waiting).collect();
        format!("requests {waiting:?}, on their way {:?}", self.on_their_way)
    }

    /// A requester sends a request: any that is not answered, or that with this first number.
    fn send(&mut self, index: usize, first: Option<u64>, around: &mut Around<'_>) -> Result<(), Violation> {
        let Some(server) = around.server else { return Ok(()) };
        let requester = &self.requesters[index];
        let waiting = requester.waiting();
        let is_flying = |first: u64| self.on_their_way.values().any(|sent| *sent == (index, first));
        let first = first.or_else(|| waiting.get(self.random.index(waiting.len().max(1))).copied());
        let Some(first) = first.filter(|first| !is_flying(*first)) else { return Ok(()) };
        let records = requester.records(first, around.history)?;
        self.requests += 1;
        let number = self.requests;
        note!(around.trace, "requester {index} sends {first} of {} as {number}", requester.stream);
        let answer =
            server.request(number, &requester.token, (requester.stream, first), &records, around.trace);
        self.on_their_way.insert(number, (index, first));
        match answer {
            Some(answer) => self.take(number, answer, around),
            None => Ok(()),
        }
    }

    /// The server goes on with its requests. Its end takes those that it has.
    fn hear(&mut self, around: &mut Around<'_>) -> Result<(), Violation> {
        let Some(server) = around.server else {
            self.on_their_way.clear();
            self.attacks.clear();
            return Ok(());
        };
        let forgotten = server.forgotten();
        let answers = server.answer();
        let is_open = |number: &u64| {
            server.has_request(*number) || answers.iter().any(|(answered, _)| answered == number)
        };
        self.on_their_way.retain(|number, _| is_open(number));
        self.attacks.retain(is_open);
        if forgotten != self.forgotten {
            note!(around.trace, "the server has forgotten {forgotten} streams");
            self.forgotten = forgotten;
            // Its senders may send again what was stored, and so may the other server. Where a stranger comes, these are the stranger,
            // clients with several streams, which keep the newest ones, and those who have no acknowledgement yet.
            let is_guarded = self.is_guarded();
            let strict = self.requesters.iter().filter(|requester| is_guarded && requester.has_stored());
            around.history.forget_all(&strict.map(|requester| requester.number).collect());
        }
        self.take_all(answers, around)
    }

    fn take_all(&mut self, answers: Vec<(u64, Answer)>, around: &mut Around<'_>) -> Result<(), Violation> {
        answers.into_iter().try_for_each(|(number, answer)| self.take(number, answer, around))
    }

    /// Whether a stranger comes, from whom everybody is protected.
    fn is_guarded(&self) -> bool {
        self.stranger.as_ref().is_some_and(|stranger| stranger.comes_to_others)
    }

    fn take(&mut self, number: u64, answer: Answer, around: &mut Around<'_>) -> Result<(), Violation> {
        note!(around.trace, "request {number} is answered: {answer:?}");
        if self.attacks.contains(&number) && answer == Answer::Stored {
            return Err(Violation::new(format!(
                "request {number} of a stranger is stored under the name of another"
            )));
        }
        let Some((index, first)) = self.on_their_way.remove(&number) else { return Ok(()) };
        let is_guarded = self.is_guarded();
        self.requesters[index].take(
            first,
            &answer,
            (is_guarded, self.forgotten > 0),
            around.history,
            &mut self.random,
        )
    }

    fn act_of_stranger(&mut self, around: &mut Around<'_>) -> Result<(), Violation> {
        let Some(mut stranger) = self.stranger.take() else { return Ok(()) };
        let epoch = around.time.unix_ns.load(Ordering::Relaxed) / 1_000_000;
        let request = stranger.act(epoch, around, &mut self.random);
        self.stranger = Some(stranger);
        let Some(((stream, first), record)) = request else { return Ok(()) };
        let Some(server) = around.server else { return Ok(()) };
        self.requests += 1;
        let number = self.requests;
        let is_foreign = around.history.is_owned(stream);
        note!(around.trace, "the stranger sends {first} of {stream} as {number}, foreign: {is_foreign}");
        if is_foreign {
            self.attacks.push_back(number);
        } else {
            around.history.send(stream, first, record);
        }
        let answer =
            server.request(number, &token(STRANGER), (stream, first), &[record.text()], around.trace);
        answer.map_or(Ok(()), |answer| self.take(number, answer, around))
    }
}
