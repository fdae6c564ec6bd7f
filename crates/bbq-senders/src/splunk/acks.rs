//! The numbers of acknowledgements (`ackId`), which a sender asks for later.
//!
//! A request is answered when its events are on disk, so a number that was given is that of events that are safe, also after a restart. So
//! nothing is kept of a number: it is the time at which it was given, and every number is true that may have been given.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::{Code, Rejected};
use crate::answer::Answer;
use crate::json::{is_object, trimmed};

/// 2026-01-01 in microseconds: no number is smaller. Those of Splunk count from 0, so none of them is true here.
const FIRST: u64 = 1_767_225_600_000_000;
/// Numbers that a sender may ask for in a request: Splunk keeps as many of a channel.
const ASKED_MAX: usize = 1_000_000;

/// Gives numbers.
#[derive(Debug)]
pub struct Acks(AtomicU64);

#[derive(Deserialize)]
struct Question {
    acks: Vec<u64>,
}

impl Acks {
    /// No number was given yet.
    #[must_use]
    pub const fn new() -> Acks {
        Acks(AtomicU64::new(FIRST))
    }

    /// A number that was not given before, at the time of this clock in microseconds. More than a million a second would repeat numbers after
    /// a restart, and would be true all the same.
    pub fn give(&self, now_us: u64) -> u64 {
        let before =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(now_us.max(last + 1)));
        now_us.max(before.unwrap_or(FIRST) + 1)
    }

    /// Answers the question which of some numbers stand for events that are safe.
    ///
    /// # Errors
    /// It is no such question.
    pub fn answer(&self, body: &[u8], now_us: u64) -> Result<Answer, Rejected> {
        let body = trimmed(body);
        if body.is_empty() {
            return Err(Rejected::of(Code::NoData, None));
        }
        let question = is_object(body).then(|| serde_json::from_slice::<Question>(body).ok()).flatten();
        let question = question.filter(|question| question.acks.len() <= ASKED_MAX);
        let Question { acks } = question.ok_or_else(|| Rejected::of(Code::InvalidDataFormat, None))?;
        let last = self.0.load(Ordering::Relaxed).max(now_us);
        let is_safe = |ack: &u64| (FIRST..=last).contains(ack);
        let acks: Map<String, Value> =
            acks.iter().map(|ack| (ack.to_string(), is_safe(ack).into())).collect();
        Ok(Answer::json(200, &json!({ "acks": acks })))
    }
}

impl Default for Acks {
    fn default() -> Acks {
        Acks::new()
    }
}

/// Checks the name of a channel, in a header or in the query; `None` if the sender has none. Who asks for acknowledgements needs one.
///
/// # Errors
/// It is no GUID, or it is needed and missing.
pub fn channel<'a>(
    header: Option<&'a str>,
    query: Option<&'a str>,
    is_needed: bool,
) -> Result<Option<&'a str>, Rejected> {
    let Some(channel) = header.or(query) else {
        return if is_needed { Err(Rejected::of(Code::ChannelMissing, None)) } else { Ok(None) };
    };
    let parts: Vec<&str> = channel.trim().split('-').collect();
    let is_guid = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_guid { Ok(Some(channel)) } else { Err(Rejected::of(Code::InvalidChannel, None)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = FIRST + 1_000_000;

    fn safe(acks: &Acks, body: &str, now_us: u64) -> Value {
        let answer = acks.answer(body.as_bytes(), now_us).unwrap();
        serde_json::from_slice::<Value>(&answer.body).unwrap()["acks"].clone()
    }

    #[test]
    fn a_number_that_was_given_is_safe_also_after_a_restart_and_no_other_is() {
        let acks = Acks::new();
        let given = [acks.give(NOW), acks.give(NOW), acks.give(NOW - 5), acks.give(NOW + 10)];
        assert_eq!(given, [NOW, NOW + 1, NOW + 2, NOW + 10]);
        let question = format!("{{\"acks\":[{},{},0,{}]}}", given[0], given[3], NOW + 11);
        let expected = json!({
            NOW.to_string(): true, (NOW + 10).to_string(): true, "0": false, (NOW + 11).to_string(): false
        });
        assert_eq!(safe(&acks, &question, NOW), expected);
        assert_eq!(
            safe(&Acks::new(), &format!("{{\"acks\":[{NOW}]}}"), NOW + 1),
            json!({ NOW.to_string(): true })
        );
        assert_eq!(safe(&acks, "{\"acks\":[]}", NOW), json!({}));
    }

    #[test]
    fn a_wrong_question_has_a_code() {
        let code = |body: &str| Acks::new().answer(body.as_bytes(), NOW).unwrap_err().code;
        assert_eq!(code(" "), Code::NoData);
        for wrong in [
            "x",
            "[[1]]",
            "{}",
            "{\"acks\":null}",
            "{\"acks\":[-1]}",
            "{\"acks\":[\"1\"]}",
            "{\"acks\":[1.5]}",
        ] {
            assert_eq!(code(wrong), Code::InvalidDataFormat, "{wrong}");
        }
    }

    #[test]
    fn a_channel_is_a_guid() {
        let guid = "FE0ECFAD-13D5-401B-847D-77833BD77131";
        assert_eq!(channel(Some(guid), None, false).unwrap(), Some(guid));
        assert_eq!(channel(None, Some(guid), true).unwrap(), Some(guid));
        assert_eq!(channel(None, None, false).unwrap(), None);
        assert_eq!(channel(None, None, true).unwrap_err().code, Code::ChannelMissing);
        for wrong in
            ["", "1", "FE0ECFAD-13D5-401B-847D-77833BD7713g", "FE0ECFAD-13D5-401B-847D-77833BD77131-1"]
        {
            assert_eq!(channel(Some(wrong), None, false).unwrap_err().code, Code::InvalidChannel);
        }
    }
}
