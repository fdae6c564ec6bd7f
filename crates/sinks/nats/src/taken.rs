//! What is taken from the groups to be published together.

use std::sync::Arc;
use std::time::Instant;

use bbq_sink::{Known, Outcomes, Positions, Refused, Rejection, TooLarge};

use async_nats::Subject;

use super::forbidden::refusal;
use super::link::NatsLink;
use super::message::Message;

/// The limits of what is taken at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) messages: usize,
    /// Unless one message is larger.
    pub(super) bytes: usize,
    /// A larger message is rejected.
    pub(super) payload: usize,
    /// See [`super::shared::Shared::judge`].
    pub(super) judged: usize,
    /// Most messages that are set apart: the progress is to name them.
    pub(super) refused: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) messages: Vec<Message>,
    pub(super) bytes: usize,
    /// Also of records without a message.
    pub(super) outcomes: Outcomes,
    /// Messages that are set apart, as their subjects are forbidden or they are too large, and why.
    pub(super) refused: SetApart,
    /// The subject of one that is forbidden.
    pub(super) forbidden: Option<Subject>,
    /// Why the next message waits for one in front of it to be taken, and the sink for it if there is none.
    pub(super) held: Option<String>,
}

/// By lane and number of the message in its lane. Messages with the same reason next to each other share it.
#[derive(Debug, Default)]
pub(super) struct SetApart(Vec<((u32, u64), Arc<str>)>);

/// Why nothing more is taken.
enum Stop {
    /// A limit is reached.
    Full,
    /// The message is too large, and so were all before it: why, and what to do.
    Held(String),
}

impl Limits {
    /// Why a message of so many bytes is not published, if it is too large.
    fn rejection(&self, bytes: usize, known: Known) -> Option<Rejection> {
        if bytes <= self.payload {
            return None;
        }
        // Of a group whose rejected messages are dead letters, it may have been published, as a server took larger ones then.
        let may_be_published = known.has_letters && bytes <= self.judged;
        if may_be_published && known.is_stored {
            return None;
        }
        let has_letter = known.has_letters && !may_be_published;
        Some(Rejection { why: too_large(bytes, self.payload), has_letter })
    }
}

impl SetApart {
    fn push(&mut self, message: (u32, u64), why: &str) {
        let why = match self.0.last() {
            Some((_, last)) if **last == *why => Arc::clone(last),
            _ => why.into(),
        };
        self.0.push((message, why));
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// Has the progress name them.
    pub(super) fn add_to(self, refused: &mut Refused) {
        self.0.into_iter().for_each(|(message, why)| refused.add(message, &why));
    }
}

impl Taken {
    /// Takes messages, as far as the limits allow, and moves `positions` behind them.
    pub(super) fn take(link: &mut NatsLink, limits: Limits, positions: &mut Positions) -> Taken {
        let mut taken = Taken::default();
        let Taken { messages, bytes, outcomes, refused, forbidden, .. } = &mut taken;
        let NatsLink { outgoing, encoder, shared, refused: refused_before, .. } = link;
        let (known_forbidden, now) = (shared.forbidden(), Instant::now());
        let stopped = outgoing.take(encoder, positions, outcomes, |message, known| {
            let message_bytes = message.payload.len();
            let is_too_many = !messages.is_empty() && *bytes + message_bytes > limits.bytes;
            if messages.len() >= limits.messages || *bytes >= limits.bytes || is_too_many {
                return Err(Stop::Full);
            }
            if let Some(reason) = refused_before.reason(message.record) {
                return Ok(Some(reason.rejection()));
            }
            let rejected = limits.rejection(message_bytes, known);
            if rejected.is_none() && !known.is_stored && known_forbidden.is_forbidden(&message.subject, now) {
                if refused.len() >= limits.refused {
                    return Err(Stop::Full);
                }
                let why = refusal(&message.subject);
                refused.push(message.record, &why);
                *forbidden = Some(message.subject);
                return Ok(Some(Rejection { why, has_letter: false }));
            }
            if let Some(Rejection { why, .. }) =
                rejected.as_ref().filter(|rejection| is_fresh(rejection, known))
            {
                if refused.len() >= limits.refused {
                    return Err(Stop::Full);
                }
                if !shared.too_large.is_set_apart(message.record, now) {
                    return Err(Stop::Held(TooLarge::held(why)));
                }
                // The limit may be raised before it is a dead letter: then it would count as published.
                refused.push(message.record, why);
            }
            if rejected.is_none() && !known.is_stored {
                *bytes += message_bytes;
                messages.push(message);
            }
            Ok(rejected)
        });
        drop(known_forbidden);
        if let Err(Stop::Held(why)) = stopped {
            taken.held = Some(why);
        }
        taken
    }

    /// Whether nothing was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }
}

/// Whether a message is to be set apart now. One before the progress was set apart earlier, also if its dead letter is yet to be written.
fn is_fresh(rejection: &Rejection, known: Known) -> bool {
    !known.is_stored && !rejection.has_letter
}

fn too_large(bytes: usize, max: usize) -> String {
    format!(
        "the message has {bytes} bytes, and the NATS server takes {max} beside the headers; raise its max_payload, or the \
         stream's max_msg_size"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a message is rejected, and whether it is a dead letter already.
    fn rejected(bytes: usize, judged: usize, is_stored: bool, has_letters: bool) -> Option<bool> {
        let limits = Limits { messages: 1, bytes: 1, payload: 100, judged, refused: 1 };
        let rejection = limits.rejection(bytes, Known { is_stored, has_letters });
        rejection.map(|rejection| rejection.has_letter)
    }

    #[test]
    fn a_message_is_a_dead_letter_already_only_if_no_server_took_it() {
        assert_eq!(rejected(100, 100, false, true), None);
        // As always: its group comes for the first time, or once more.
        assert_eq!(rejected(101, 100, false, false), Some(false));
        assert_eq!(rejected(101, 100, true, false), Some(false));
        assert_eq!(rejected(101, 100, false, true), Some(true));
        assert_eq!(rejected(101, 100, true, true), Some(true));
        // A server took it, and has lost it: in no stream, and no dead letter.
        assert_eq!(rejected(101, 200, false, true), Some(false));
        assert_eq!(rejected(201, 200, false, true), Some(true));
        // It has not lost it.
        assert_eq!(rejected(101, 200, true, true), None);
        // Whether its letter is kept is unknown.
        assert_eq!(rejected(101, 200, true, false), Some(false));
    }

    #[test]
    fn what_is_set_apart_has_its_own_reason() {
        let (mut apart, mut refused) = (SetApart::default(), Refused::default());
        let messages = [((0, 7), "too large"), ((0, 8), "too large"), ((1, 2), "forbidden")];
        messages.into_iter().for_each(|(message, why)| apart.push(message, why));
        assert!(apart.len() == 3 && Arc::ptr_eq(&apart.0[0].1, &apart.0[1].1));
        apart.add_to(&mut refused);
        assert_eq!(refused.without_letters().to_string(), "0:7+2 1:2+1");
        for (message, why) in messages {
            let rejection = Rejection { why: why.to_owned(), has_letter: false };
            assert_eq!(refused.reason(message).map(bbq_sink::Reason::rejection), Some(rejection));
        }
    }

    #[test]
    fn what_the_progress_has_passed_is_not_set_apart_again() {
        let is_fresh = |has_letter, is_stored| {
            let rejection = Rejection { why: String::new(), has_letter };
            is_fresh(&rejection, Known { is_stored, has_letters: has_letter })
        };
        assert!(is_fresh(false, false));
        assert!(!is_fresh(false, true) && !is_fresh(true, false) && !is_fresh(true, true));
    }
}
