//! Messages of senders that are told nothing, over UDP and TCP: what is no object is lost and counted, and everything else is stored, also
//! if it lacks what GELF asks for.

use bbq_wire::batch::Events;
use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, BATCH_BODY_BYTES_TARGET, MESSAGE_BYTES_MAX};

use super::message::{self, GelfError};
use crate::collected::Collected;
use crate::limits::Limits;

/// What the messages of a read take at most, each with its fields: a message of the largest size, and all small ones that were read with it.
const BYTES_MAX: usize = 12 * 1024 * 1024;

const _: () = assert!(MESSAGE_BYTES_MAX as usize + 2 * 1024 * 1024 < BYTES_MAX);
// They go into a batch that has less than its target, also if the last one goes over the limit with its fields.
const _: () = assert!(BYTES_MAX + 1024 * 1024 + BATCH_BODY_BYTES_TARGET < BATCH_BODY_BYTES_MAX as usize);

/// Messages that are collected, and what was lost.
#[derive(Debug)]
pub struct Loose {
    collected: Collected,
    /// Messages that are no objects.
    pub malformed: u64,
    /// Messages that are too long, and one for what was beyond the limit of all.
    pub oversize: u64,
    /// What is wrong with the last one that is no object.
    pub why: Option<GelfError>,
}

impl Loose {
    /// For messages up to this size.
    #[must_use]
    pub fn new(message_bytes_max: usize) -> Loose {
        let limits = Limits { message_bytes_max, bytes_max: BYTES_MAX };
        Loose { collected: Collected::new(limits), malformed: 0, oversize: 0, why: None }
    }

    /// Takes what is between two delimiters, or a datagram: an object, or some one behind the other.
    pub fn take(&mut self, text: &[u8]) {
        match message::objects(text, message::Missing::IsStored, &mut self.collected) {
            Ok(()) => {}
            Err(GelfError::TooLong { .. } | GelfError::TooMuch(_)) => self.oversize += 1,
            Err(why) => {
                self.malformed += 1;
                self.why = Some(why);
            }
        }
    }

    /// The messages.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.collected.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Shown = (String, Vec<(String, String)>);

    fn taken(texts: &[&str]) -> (Vec<Shown>, u64, u64) {
        let mut loose = Loose::new(60);
        texts.iter().for_each(|text| loose.take(text.as_bytes()));
        let shown = |event: bbq_wire::batch::Event<'_>| {
            let fields = event.fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
            (String::from_utf8_lossy(event.message).into_owned(), fields.collect())
        };
        (loose.events().iter().map(shown).collect(), loose.malformed, loose.oversize)
    }

    #[test]
    fn what_lacks_a_message_is_stored_as_it_came() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let cases = [
            ("{}", "{}", vec![]),
            (" {\"host\":\"a\"} ", "{\"host\":\"a\"}", vec![field("host", "a")]),
            (
                "{\"short_message\":null,\"_a\":1}",
                "{\"short_message\":null,\"_a\":1}",
                vec![field("_a", "1")],
            ),
            ("{\"short_message\":\" \"}", "{\"short_message\":\" \"}", vec![]),
            ("{\"short_message\":12,\"full_message\":\"all\"}", "all", vec![]),
            ("{\"short_message\":12}", "{\"short_message\":12}", vec![]),
            ("{\"message\":\"a\",\"version\":null}", "a", vec![]),
            ("{\"short_message\":\"\\ud800\"}", "\u{fffd}", vec![]),
        ];
        for (text, message, fields) in cases {
            assert_eq!(taken(&[text]), (vec![(message.to_owned(), fields)], 0, 0), "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_counted_and_does_not_harm_the_others() {
        let one = || ("1".to_owned(), vec![]);
        let short = "{\"short_message\":\"1\"}";
        for other in ["", "[]", "null", "\"a\"", "{", "<34>1 a", "{\"a\":}", "\u{0}"] {
            assert_eq!(taken(&[short, other, short]), (vec![one(), one()], 1, 0), "{other:?}");
        }
        let broken = format!("{short}{short}{{");
        assert_eq!(taken(&[&broken]), (vec![one(), one()], 1, 0));
        let long = format!("{{\"short_message\":\"{}\"}}", "x".repeat(61));
        assert_eq!(taken(&[&long, short]), (vec![one()], 0, 1));
        let nested = "[".repeat(100_000);
        assert_eq!(taken(&[&format!("{{\"a\":{nested}"), short]), (vec![one()], 1, 0));
        let many = format!("{{{}\"short_message\":\"a\"}}", "\"a\":0,".repeat(5000));
        assert_eq!(taken(&[&many, short]), (vec![one()], 1, 0));
    }

    #[test]
    fn all_messages_together_have_a_limit() {
        let text = "{\"short_message\":\"1\"}".repeat(1_000_000);
        let mut loose = Loose::new(60);
        loose.take(text.as_bytes());
        assert!(loose.events().body_bytes_max() <= BYTES_MAX + 1024 && loose.events().len() > 10_000);
        assert_eq!(loose.oversize, 1);
    }
}
