//! Cuts the bytes of a file into records.
//!
//! Invariant: nothing is kept between two calls. What is not taken is read and cut again with what comes behind it.

use std::fs::File;
use std::io;

use bbq_wire::batch::{BatchBuilder, Detail};
use memchr::{memchr_iter, memrchr};

use crate::filter::Records;
use crate::identity::read_full_at;
use crate::limits::{TURN_BYTES, TURN_RECORDS_MAX};

/// What was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes behind which the next call begins.
    pub(crate) taken: usize,
    /// Lines over the limit, which were left out.
    pub(crate) oversize: u64,
    /// Their bytes.
    pub(crate) oversize_bytes: u64,
}

/// Cuts whole lines, until the batch is full. With `is_end`, what is behind the last line feed is a line.
pub(crate) fn lines(bytes: &[u8], line_bytes_max: usize, is_end: bool, records: &mut Records<'_>) -> Cut {
    let mut cut = Cut::default();
    for at in memchr_iter(b'\n', bytes) {
        if is_full(records.batch) {
            return cut;
        }
        let line = &bytes[cut.taken..at];
        cut.take(line.strip_suffix(b"\r").unwrap_or(line), at + 1, line_bytes_max, records);
    }
    if is_end && cut.taken < bytes.len() && !is_full(records.batch) {
        cut.take(&bytes[cut.taken..], bytes.len(), line_bytes_max, records);
    }
    cut
}

/// The byte behind the last line feed within `size` bytes of a file; `size` if the last line is over the limit.
pub(crate) fn last_line_end(file: &File, size: u64, line_bytes_max: usize) -> io::Result<u64> {
    let from = size.saturating_sub(line_bytes_max as u64 + 2);
    let mut bytes = vec![0; (size - from) as usize];
    let read = read_full_at(file, &mut bytes, from)?;
    Ok(match memrchr(b'\n', &bytes[..read]) {
        Some(at) => from + at as u64 + 1,
        None if from == 0 => 0,
        None => size,
    })
}

impl Cut {
    fn take(&mut self, line: &[u8], end: usize, line_bytes_max: usize, records: &mut Records<'_>) {
        if line.len() > line_bytes_max {
            self.oversize += 1;
            self.oversize_bytes += line.len() as u64;
        } else {
            records.push(line, Detail::default(), end);
        }
        self.taken = end;
    }
}

fn is_full(batch: &BatchBuilder) -> bool {
    batch.records() >= TURN_RECORDS_MAX || batch.body_bytes() >= TURN_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], is_end: bool) -> (usize, u32, u64) {
        let mut batch = BatchBuilder::new();
        let mut records = Records { batch: &mut batch, filter: None, filtered: 0 };
        let cut = lines(bytes, 5, is_end, &mut records);
        (cut.taken, batch.records(), cut.oversize)
    }

    #[test]
    fn a_line_ends_with_its_line_feed() {
        assert_eq!(cut(b"", false), (0, 0, 0));
        assert_eq!(cut(b"a\n\r\n\nb", false), (5, 3, 0));
        assert_eq!(cut(b"a\nb", true), (3, 2, 0));
        assert_eq!(cut(b"123456\nb\n", false), (9, 1, 1));
        assert_eq!(cut(b"12345\r\n", false), (7, 1, 0));
    }

    #[test]
    fn a_turn_ends_when_its_batch_is_full() {
        let bytes = vec![b'\n'; 2 * TURN_RECORDS_MAX as usize];
        assert_eq!(cut(&bytes, false), (TURN_RECORDS_MAX as usize, TURN_RECORDS_MAX, 0));
    }
}
