//! Finds messages in the bytes of a connection.

use super::error::NotForward;
use super::msgpack::{Head, Walk};

/// The most elements of a message: those of a PING.
const ELEMENTS_MAX: u32 = 6;

/// Finds the end of the next message while its bytes come in. Each byte is looked at once, however it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Finder {
    walk: Walk,
    /// Where the last element begins; 0 while that is not known.
    last: usize,
    bytes_max: usize,
}

/// A message that is there as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How many bytes it has.
    pub bytes: usize,
    /// Where its last element begins.
    pub(super) last: usize,
}

impl Finder {
    /// For messages of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Finder {
        Finder { walk: Walk::new(), last: 0, bytes_max }
    }

    /// Looks for the end of the message at the front of `held`: what it was called with before, and what has come since. After a
    /// message the next one begins at the front.
    ///
    /// # Errors
    /// The bytes are of no message, or the message is too large, which its lengths say before its bytes are there.
    pub fn find(&mut self, held: &[u8]) -> Result<Option<Found>, NotForward> {
        let too_large = NotForward::TooLarge { bytes_max: self.bytes_max };
        while !self.walk.is_done() {
            let is_first = self.walk.at == 0;
            let Some(head) = self.walk.step(held)? else { return Ok(None) };
            if is_first {
                check_first(head, held)?;
            }
            if self.walk.pending == 1 && self.last == 0 {
                // What is left is the last element: before that, it and the rest of another one were to come.
                self.last = self.walk.at;
            }
            // Each value takes a byte at least.
            if (self.walk.at as u64).saturating_add(self.walk.pending) > self.bytes_max as u64 {
                return Err(too_large);
            }
        }
        if held.len() < self.walk.at {
            return Ok(None);
        }
        let found = Found { bytes: self.walk.at, last: self.last };
        *self = Finder::new(self.bytes_max);
        Ok(Some(found))
    }

    /// How many bytes of the message are known to come, with those that are there.
    #[must_use]
    pub fn expected_bytes(&self) -> usize {
        self.walk.at
    }
}

/// Checks the first head of a message: an array, or nil.
fn check_first(head: Head, held: &[u8]) -> Result<(), NotForward> {
    let what = match head {
        Head::Array(2..=ELEMENTS_MAX) | Head::Nil => return Ok(()),
        Head::Unsigned(0x16) => "the client speaks TLS: give it the address of a listener with tls_cert",
        Head::Unsigned(first) if first == u64::from(b'{') || first == u64::from(b'[') => {
            "the client sends JSON"
        }
        Head::Unsigned(first) if held.first().is_some_and(u8::is_ascii_graphic) && first > 0x20 => {
            "the client sends text"
        }
        _ => "the client sends something else",
    };
    Err(NotForward::Other(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ["t", 1, {"a": "b"}, {}]
    const MESSAGE: [u8; 10] = [0x94, 0xa1, b't', 1, 0x81, 0xa1, b'a', 0xa1, b'b', 0x80];

    #[test]
    fn messages_are_found_in_every_cut() {
        let bytes = [&MESSAGE[..], &[0xc0], &MESSAGE[..]].concat();
        for piece in 1..=bytes.len() {
            let (mut held, mut found, mut finder) = (Vec::new(), Vec::new(), Finder::new(100));
            for piece in bytes.chunks(piece) {
                held.extend_from_slice(piece);
                while let Some(message) = finder.find(&held).unwrap() {
                    found.push(message.bytes);
                    held.drain(..message.bytes);
                    if held.is_empty() {
                        break;
                    }
                }
            }
            assert_eq!(found, [10, 1, 10], "in pieces of {piece}");
        }
        assert_eq!(Finder::new(100).find(&MESSAGE).unwrap(), Some(Found { bytes: 10, last: 9 }));
    }

    #[test]
    fn what_is_too_large_is_known_before_its_bytes_come() {
        let too_large = Err(NotForward::TooLarge { bytes_max: 1000 });
        for bytes in [
            &[0x92, 0xa1, b't', 0xc6, 0xff, 0xff, 0xff, 0xff][..],
            &[0x92, 0xa1, b't', 0xdd, 0xff, 0xff, 0xff, 0xff],
            &[0x92, 0xdf, 0xff, 0xff, 0xff, 0xff],
            &[0x92, 0xc9, 0xff, 0xff, 0xff, 0xff, 0],
        ] {
            assert_eq!(Finder::new(1000).find(bytes), too_large, "{bytes:02x?}");
        }
        // Many of them: what is to come does not overflow.
        let mut bytes = vec![0x92];
        (0..100).for_each(|_| bytes.extend_from_slice(&[0xdf, 0xff, 0xff, 0xff, 0xff]));
        assert!(Finder::new(usize::MAX).find(&bytes).unwrap().is_none());
    }

    #[test]
    fn a_million_levels_are_walked() {
        let mut bytes = vec![0x92, 0xa1, b't'];
        bytes.extend(std::iter::repeat_n(0x91, 1_000_000));
        assert_eq!(Finder::new(2_000_000).find(&bytes), Ok(None));
        bytes.push(0xc0);
        assert_eq!(Finder::new(2_000_000).find(&bytes).unwrap().map(|found| found.bytes), Some(bytes.len()));
    }

    #[test]
    fn other_protocols_are_told_at_their_first_byte() {
        for (bytes, says) in [
            (&b"GET / HTTP/1.1\r\n"[..], "sends text"),
            (b"{\"a\":1}", "JSON"),
            (b"\x16\x03\x01\x02\x00", "tls_cert"),
            (b"\x00", "something else"),
            (b"\x80", "something else"),
            (b"\x90", "something else"),
            (b"\xdd\x00\x00\x00\x07", "something else"),
        ] {
            let error = Finder::new(100).find(bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{bytes:?}: {error}");
        }
    }
}
