//! The text of a message: its run, its number, and padding that depends on both, so that a changed byte is detected.
//!
//! ```text
//! run-0000002a 00000017 abcdef...
//! ```

/// Bytes in front of the padding.
const HEAD_BYTES: usize = 22;
/// The padding has a different length in each message, and is shorter than this.
const PADDING_BYTES_MAX: u64 = 200;

/// One message of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) run: u32,
    pub(crate) number: u64,
}

impl Message {
    /// Appends the text, without a line feed.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let Message { run, number } = self;
        out.extend_from_slice(format!("run-{run:08x} {number:08} ").as_bytes());
        let mixed = (u64::from(run) << 32 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for place in 0..mixed % PADDING_BYTES_MAX {
            out.push(b'a' + (mixed.rotate_left(place as u32 % 64) % 26) as u8);
        }
    }

    /// The message in a line of the output. `None` for a line that no client sent.
    pub(crate) fn read(line: &[u8]) -> Option<Message> {
        // Syslog messages begin with their priority.
        let line = line.strip_prefix(b"<13>").unwrap_or(line);
        let head = std::str::from_utf8(line.get(..HEAD_BYTES)?).ok()?;
        let (run, number) = head.strip_prefix("run-")?.split_once(' ')?;
        let message =
            Message { run: u32::from_str_radix(run, 16).ok()?, number: number.trim_end().parse().ok()? };
        let mut whole = Vec::new();
        message.write(&mut whole);
        (whole == line).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_a_changed_byte_is_noticed() {
        for number in 0..300 {
            let message = Message { run: 42, number };
            let mut text = Vec::new();
            message.write(&mut text);
            assert_eq!(Message::read(&text), Some(message));
            let last = text.len() - 1;
            text[last] ^= 1;
            assert_eq!(Message::read(&text), None);
        }
    }
}
