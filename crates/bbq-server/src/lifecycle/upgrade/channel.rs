//! The channel between the two programs of an upgrade. A message can carry descriptors.
//!
//! ```text
//! u32 bytes of the message, u32 descriptors (little-endian), the message in JSON,
//! then one byte for each 128 descriptors or less, which carries them
//! ```
//!
//! Invariant: a message is received with all of its descriptors, or not at all.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Descriptors in one system call: the kernel takes 253 (SCM_MAX_FD).
const DESCRIPTORS_PER_CALL: usize = 128;
/// Most bytes of a message. Many connections are split over several messages (`successor.rs`).
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most descriptors of a message: 256 listeners with 256 sockets each.
const DESCRIPTORS_MAX: usize = 65_536 + 16;

/// One end of the channel.
pub(super) struct Channel {
    stream: UnixStream,
}

impl Channel {
    pub(super) fn new(stream: UnixStream) -> Channel {
        Channel { stream }
    }

    /// How long each wait for the other end may last.
    pub(super) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(patience)?;
        self.stream.set_write_timeout(patience)
    }

    pub(super) fn send(
        &mut self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let body = serde_json::to_vec(message)?;
        let length = u32::try_from(body.len()).map_err(|_| too_large())?;
        let count = u32::try_from(descriptors.len()).map_err(|_| too_large())?;
        self.stream.write_all(&length.to_le_bytes())?;
        self.stream.write_all(&count.to_le_bytes())?;
        self.stream.write_all(&body)?;
        descriptors.chunks(DESCRIPTORS_PER_CALL).try_for_each(|chunk| self.send_descriptors(chunk))
    }

    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<(T, Vec<OwnedFd>)> {
        let (length, count) = (self.receive_number()?, self.receive_number()?);
        if length > MESSAGE_BYTES_MAX || count > DESCRIPTORS_MAX {
            return Err(too_large());
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let mut descriptors = Vec::with_capacity(count);
        while descriptors.len() < count {
            let before = descriptors.len();
            self.receive_descriptors(&mut descriptors)?;
            if descriptors.len() == before {
                // The kernel drops descriptors beyond the limit of this process.
                return Err(io::Error::other(
                    "descriptors were lost on the way; raise their limit (ulimit -n)",
                ));
            }
        }
        Ok((serde_json::from_slice(&body)?, descriptors))
    }

    /// Waits until the other end is closed, for at most the time of [`Channel::set_patience`].
    pub(super) fn wait_closed(&mut self) {
        // The other end sends nothing more, so a read returns at its end. An error also means that it is gone.
        let _ended = self.stream.read(&mut [0]);
    }

    fn receive_number(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 4];
        self.stream.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_CALL))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(descriptors));
        loop {
            match sendmsg(&self.stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive_descriptors(&self, into: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_CALL))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        loop {
            let flags = RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&self.stream, &mut [IoSliceMut::new(&mut byte)], &mut control, flags) {
                Ok(received) if received.bytes == 0 => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                into.extend(descriptors);
            }
        }
        Ok(())
    }
}

fn too_large() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "a message of the upgrade is too large")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn messages_come_with_their_descriptors_in_order() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut left, mut right) = (Channel::new(left), Channel::new(right));
        let files: Vec<_> = (0..300).map(|_| tempfile::tempfile().unwrap()).collect();
        for (index, file) in files.iter().enumerate() {
            file.set_len(index as u64).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                left.send(&"first", &borrowed).unwrap();
                left.send(&"second", &[]).unwrap();
                drop(left);
            });
            let (word, descriptors): (String, _) = right.receive().unwrap();
            assert_eq!((word.as_str(), descriptors.len()), ("first", 300));
            for (index, descriptor) in descriptors.into_iter().enumerate() {
                assert_eq!(std::fs::File::from(descriptor).metadata().unwrap().len(), index as u64);
            }
            assert_eq!(right.receive::<String>().unwrap().0, "second");
            assert_eq!(right.receive::<String>().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        });
    }
}
