//! What a command writes with `ack=line`: after each message, or after several, the number of lines that it has finished with.
//!
//! Lines are counted from the beginning of the run, as `enumerate` of Python and `$.` of Perl count them. A message may have several
//! lines; it is finished with its last one. Anything else is an error, so that a mistake shows before a message is lost by it.

use memchr::memchr;

/// The longest line: 20 digits, with room for blanks.
const LINE_BYTES_MAX: usize = 64;
/// How much of a wrong line an error shows.
const SHOWN_CHARS_MAX: usize = 40;

/// See the module.
#[derive(Default)]
pub(super) struct Acknowledgements {
    /// The beginning of a line.
    line: Vec<u8>,
    finished: u64,
}

impl Acknowledgements {
    /// Takes what the command wrote, while `written` lines were in its standard input. Returns how many of these it has finished with.
    pub(super) fn take(&mut self, mut bytes: &[u8], written: u64) -> Result<u64, String> {
        while let Some(end) = memchr(b'\n', bytes) {
            self.line.extend_from_slice(&bytes[..end.min(LINE_BYTES_MAX + 1)]);
            bytes = &bytes[end + 1..];
            self.finished = self.number(written)?;
            self.line.clear();
        }
        self.line.extend_from_slice(&bytes[..bytes.len().min(LINE_BYTES_MAX + 1)]);
        if self.line.len() > LINE_BYTES_MAX {
            return Err(self.no_number());
        }
        Ok(self.finished)
    }

    fn number(&self, written: u64) -> Result<u64, String> {
        let text = std::str::from_utf8(&self.line).unwrap_or_default().trim();
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_number).ok_or_else(|| self.no_number())?;
        if number > written {
            return Err(format!(
                "the command acknowledged line {number}, but was given only {written} lines"
            ));
        }
        if number < self.finished {
            return Err(format!(
                "the command acknowledged line {number} after line {}; a number stands for all lines up to it",
                self.finished
            ));
        }
        Ok(number)
    }

    fn no_number(&self) -> String {
        let shown: String = String::from_utf8_lossy(&self.line).chars().take(SHOWN_CHARS_MAX).collect();
        format!(
            "the command wrote {shown:?} to its standard output; with ack=line it must write only the number of the last line that \
             it has finished with, and everything else to standard error"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_any_pieces() {
        let mut read = Acknowledgements::default();
        assert_eq!(read.take(b"", 9), Ok(0));
        assert_eq!(read.take(b"0\n1", 9), Ok(0));
        assert_eq!(read.take(b"\n 3 \r\n4\n4\n", 9), Ok(4));
        assert_eq!(read.take(b"9", 9), Ok(4), "this may be the beginning of a number");
        assert_eq!(read.take(b"\n", 9), Ok(9));
    }

    #[test]
    fn what_is_no_number_of_a_written_line_is_an_error() {
        let long = "1".repeat(100);
        for (text, says) in [
            ("\n", "wrote \"\""),
            ("done\n", "wrote \"done\""),
            ("+3\n", "wrote \"+3\""),
            ("3 4\n", "wrote \"3 4\""),
            ("99999999999999999999999\n", "wrote \"999"),
            (long.as_str(), "wrote \"111"),
            ("\u{0}\u{1b}[31m\n", "wrote \"\\0\\u{1b}[31m\""),
            ("10\n", "line 10, but was given only 9"),
            ("5\n4\n", "line 4 after line 5"),
        ] {
            let error = Acknowledgements::default().take(text.as_bytes(), 9).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        let mut read = Acknowledgements::default();
        let endless = (0..1000).find_map(|_| read.take(&[b'x'; 1000], 9).err());
        assert!(endless.is_some() && read.line.len() < 1000);
    }
}
