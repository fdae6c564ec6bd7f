//! The messages of a request, within its limits.

use bbq_wire::batch::Events;
use bbq_wire::limits::{FIELD_NAME_BYTES_MAX, FIELD_VALUE_BYTES_MAX, FIELDS_MAX};

use crate::limits::{Limits, MESSAGES_MAX};

/// The field that says how many fields of a message were left out or cut, as a batch has limits for them.
const OMITTED: &str = "fields_omitted";

/// The messages of a request with their fields are more than a batch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the messages of the request, each with its fields, are more than {bytes_max} bytes, or they are more than {MESSAGES_MAX}; send fewer in a request"
)]
pub struct TooMuch {
    /// See [`Limits::bytes_max`].
    pub bytes_max: usize,
}

/// Messages that are collected.
#[derive(Debug)]
pub(crate) struct Collected {
    limits: Limits,
    pub(crate) events: Events,
}

impl Collected {
    pub(crate) fn new(limits: Limits) -> Collected {
        Collected { limits, events: Events::default() }
    }

    /// Whether a message is not longer than it may be.
    pub(crate) fn fits(&self, message: &[u8]) -> bool {
        message.len() <= self.limits.message_bytes_max
    }

    /// Adds a message that fits.
    ///
    /// # Errors
    /// All messages together are too large now.
    pub(crate) fn push(
        &mut self,
        message: &[u8],
        time_ns: u64,
        fields: &[(&str, &str)],
    ) -> Result<(), TooMuch> {
        let bytes_max = self.limits.bytes_max;
        // Before it is copied: it is at most as long as the request.
        if self.events.body_bytes_max() + message.len() > bytes_max || self.events.len() == MESSAGES_MAX {
            return Err(TooMuch { bytes_max });
        }
        if fields.len() <= FIELDS_MAX && fields.iter().all(is_whole) {
            self.events.push(message, time_ns, fields.iter().copied());
        } else {
            self.push_omitting(message, time_ns, fields);
        }
        if self.events.body_bytes_max() > bytes_max { Err(TooMuch { bytes_max }) } else { Ok(()) }
    }

    /// Adds a message whose fields are over the limits: it says of how many.
    fn push_omitting(&mut self, message: &[u8], time_ns: u64, fields: &[(&str, &str)]) {
        let named = fields.iter().filter(|(name, _)| name.len() <= FIELD_NAME_BYTES_MAX);
        let kept: Vec<(&str, &str)> = named.copied().take(FIELDS_MAX - 1).collect();
        let whole = kept.iter().filter(|field| is_whole(field)).count();
        let omitted = (fields.len() - whole).to_string();
        let omitted = (OMITTED, omitted.as_str());
        self.events.push(message, time_ns, kept.into_iter().chain([omitted]));
    }
}

fn is_whole((name, value): &(&str, &str)) -> bool {
    name.len() <= FIELD_NAME_BYTES_MAX && value.len() <= FIELD_VALUE_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_of_fields_is_counted_in_a_field() {
        let mut collected = Collected::new(Limits { message_bytes_max: 10, bytes_max: 100_000 });
        let long = "v".repeat(FIELD_VALUE_BYTES_MAX + 1);
        let name = "n".repeat(FIELD_NAME_BYTES_MAX + 1);
        let many: Vec<(&str, &str)> = [("a", long.as_str()), (name.as_str(), "b")]
            .into_iter()
            .chain((0..40).map(|_| ("c", "d")))
            .collect();
        collected.push(b"m", 0, &many).unwrap();
        let event = collected.events.iter().next().unwrap();
        let fields: Vec<_> = event.fields.collect();
        assert_eq!(fields.len(), FIELDS_MAX);
        assert_eq!(fields[0].1.len(), FIELD_VALUE_BYTES_MAX);
        // Of 42, 30 are whole.
        assert_eq!(fields[FIELDS_MAX - 1], (OMITTED, "12"));
    }

    #[test]
    fn all_messages_together_have_a_limit() {
        let limits = Limits { message_bytes_max: 10, bytes_max: 1000 };
        let mut collected = Collected::new(limits);
        let value = "v".repeat(400);
        let fields = [("name", value.as_str())];
        assert_eq!(collected.push(b"one", 1, &fields), Ok(()));
        // The same fields are there once.
        assert_eq!(collected.push(b"two", 1, &fields), Ok(()));
        let other = [("other", value.as_str())];
        assert_eq!(collected.push(b"three", 1, &other), Ok(()));
        assert_eq!(collected.push(b"four", 1, &fields), Err(TooMuch { bytes_max: 1000 }));
        assert!(collected.fits(b"0123456789") && !collected.fits(b"01234567890"));
    }
}
