//! The hole at the beginning of a file that was truncated under a program that does not append: the program goes on writing at its
//! old offset, and the bytes before that are zeros.

use std::fs::File;
use std::io;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::identity::{Prefix, read_full_at};
use crate::limits::TURN_BYTES;
use crate::reader::Reader;
use crate::watch::FileIndex;

impl Reader {
    /// Begins the stream of a file behind its zeros, if there is anything.
    pub(crate) fn begin_behind_hole(&mut self, index: FileIndex, beginning: &[u8]) -> io::Result<()> {
        let Some(handle) = self.files.get(index).and_then(|file| file.file.as_ref()) else { return Ok(()) };
        if let Some(start) = end_of_hole(handle)? {
            self.begin_new(index, Prefix::of(beginning), start);
        }
        Ok(())
    }
}

/// The first byte that is not zero; `None` if there is none yet.
fn end_of_hole(file: &File) -> io::Result<Option<u64>> {
    let mut at = match rustix::fs::seek(file, SeekFrom::Data(0)) {
        Ok(at) => at,
        Err(Errno::NXIO) => return Ok(None),
        // This file system has no holes.
        Err(_) => 0,
    };
    let mut bytes = vec![0; TURN_BYTES];
    loop {
        let read = read_full_at(file, &mut bytes, at)?;
        if let Some(first) = bytes[..read].iter().position(|byte| *byte != 0) {
            return Ok(Some(at + first as u64));
        }
        if read < bytes.len() {
            return Ok(None);
        }
        at += read as u64;
    }
}
