//! Rules before a message is stored, for one thread.

use crate::message::{Message, Scratch};
use crate::rules::Rules;

/// A buffer that a large message has made larger is given back.
const BUFFER_KEPT_BYTES: usize = 256 * 1024;

/// Rules, and memory that is used again from message to message.
#[derive(Debug)]
pub struct Filter {
    rules: Rules,
    scratch: Scratch,
    redacted: Vec<u8>,
}

impl Filter {
    /// A filter of these rules for one thread.
    #[must_use]
    pub fn new(rules: &Rules) -> Filter {
        Filter { rules: rules.for_thread(), scratch: Scratch::default(), redacted: Vec::new() }
    }

    /// The record as it is stored, or `None` if it is left out.
    pub fn pass<'a>(&'a mut self, message: &Message<'a>) -> Option<&'a [u8]> {
        let Filter { rules, scratch, redacted } = self;
        if rules.leaves_out() && !rules.keeps(message, scratch) {
            return None;
        }
        redacted.clear();
        if redacted.capacity() > BUFFER_KEPT_BYTES {
            *redacted = Vec::new();
        }
        let is_changed = rules.redact(message.source, message.record, redacted);
        Some(if is_changed { redacted } else { message.record })
    }
}
