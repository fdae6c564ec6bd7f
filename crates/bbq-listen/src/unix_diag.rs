//! Queue length of a listening unix socket, from the kernel's socket diagnosis (sock_diag(7), `UNIX_DIAG`).
//!
//! Needs no privilege. Where netlink is filtered away (some containers) there is no answer.
//!
//! One question and one answer, in the machine's byte order:
//!
//! ```text
//! nlmsghdr       length u32, type u16, flags u16, sequence u32, port u32
//! unix_diag_req  family u8, protocol u8, padding u16, states u32, inode u32, show u32, cookie 2 x u32
//! unix_diag_msg  family u8, type u8, state u8, padding u8, inode u32, cookie 2 x u32
//! nlattr         length u16, type u16, then for UNIX_DIAG_RQLEN: queue u32, backlog u32
//! ```

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const UDIAG_SHOW_RQLEN: u32 = 0x10;
const UNIX_DIAG_RQLEN: u16 = 4;

const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 24;
const ANSWER_BYTES: usize = HEADER_BYTES + 16;
/// Room for the answer with all the attributes that we do not ask for.
const BUFFER_BYTES: usize = 1024;

/// Connections that wait to be accepted, and how many may.
pub(crate) fn listen_queue(socket: BorrowedFd<'_>) -> rustix::io::Result<(u32, u32)> {
    let inode = u32::try_from(rustix::fs::fstat(socket)?.st_ino).map_err(|_| Errno::OVERFLOW)?;
    let diagnosis = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )?;
    rustix::net::send(&diagnosis, &request(inode), SendFlags::empty())?;
    // The kernel answers within the send; there is nothing to wait for.
    let mut buffer = [0_u8; BUFFER_BYTES];
    let (length, _) = rustix::net::recv(&diagnosis, &mut buffer[..], RecvFlags::empty())?;
    answer(&buffer[..length.min(BUFFER_BYTES)]).ok_or(Errno::BADMSG)
}

#[expect(clippy::disallowed_methods, reason = "netlink speaks the machine's byte order")]
fn request(inode: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0_u8; REQUEST_BYTES];
    bytes[0..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    let body = &mut bytes[HEADER_BYTES..];
    body[0] = libc::AF_UNIX as u8;
    body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes()); // every state
    body[8..12].copy_from_slice(&inode.to_ne_bytes());
    body[12..16].copy_from_slice(&UDIAG_SHOW_RQLEN.to_ne_bytes());
    body[16..24].fill(0xff); // whatever its cookie
    bytes
}

/// `None` for anything that is not the answer: an error message, or one without the attribute.
fn answer(bytes: &[u8]) -> Option<(u32, u32)> {
    let half = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if half(4)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let mut at = ANSWER_BYTES;
    loop {
        let (length, kind) = (usize::from(half(at)?), half(at + 2)?);
        if kind == UNIX_DIAG_RQLEN {
            return Some((word(at + 4)?, word(at + 8)?));
        }
        // An attribute is at least its own header; anything less would never end.
        at += length.max(4).next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_answers_are_refused_and_end() {
        let mut bytes = [0_u8; 64];
        assert_eq!(answer(&[]), None);
        assert_eq!(answer(&bytes), None, "not of the family");
        bytes[4] = 20;
        assert_eq!(answer(&bytes), None, "attributes of no length");
        bytes[34] = 4;
        bytes[36] = 7;
        bytes[40] = 9;
        assert_eq!(answer(&bytes).map(|(queue, _)| u32::from_le(queue)), Some(7));
        assert_eq!(answer(&bytes[..42]), None, "cut short");
    }
}
