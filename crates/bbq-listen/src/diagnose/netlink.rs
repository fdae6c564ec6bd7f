//! Requests to the kernel's socket diagnosis (sock_diag(7)). `unix_diag` and `inet_diag` know the messages.
//!
//! It needs no privilege. Some containers block netlink; then every request fails.
//!
//! In the machine's byte order:
//!
//! ```text
//! nlmsghdr  length u32, type u16, flags u16, sequence u32, port u32, then the message
//! nlattr    length u16, type u16, then the value, padded to 4 bytes
//! ```
//!
//! Invariant: it never blocks.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
/// `NLM_F_ROOT | NLM_F_MATCH`: all that match.
const NLM_F_DUMP: u16 = 0x300;

const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// The largest datagram of a response: 32 KiB (net/netlink/af_netlink.c, `netlink_dump`).
const BUFFER_BYTES: usize = 32 * 1024;

/// How many sockets a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The socket that it names.
    One,
    /// All sockets that match.
    Matching,
}

/// Sends `body`, a message without its header, and calls `f` for each message of the response, without its header.
pub(crate) fn query(scope: Scope, body: &[u8], mut f: impl FnMut(&[u8])) -> rustix::io::Result<()> {
    let diagnosis = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )?;
    retry_on_intr(|| rustix::net::send(&diagnosis, &request(scope, body), SendFlags::empty()))?;
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    // Never waits: the kernel makes the first part within the send, and each further part within a receive.
    while let Progress::More = read_response(receive(&diagnosis, &mut buffer)?, scope, &mut f)? {}
    Ok(())
}

fn receive<'a>(diagnosis: &OwnedFd, buffer: &'a mut [u8]) -> rustix::io::Result<&'a [u8]> {
    let (length, _) = retry_on_intr(|| rustix::net::recv(diagnosis, &mut *buffer, RecvFlags::empty()))?;
    buffer.get(..length).ok_or(Errno::BADMSG)
}

#[expect(clippy::disallowed_methods, reason = "netlink speaks the machine's byte order")]
fn request(scope: Scope, body: &[u8]) -> Vec<u8> {
    let flags = match scope {
        Scope::One => NLM_F_REQUEST,
        Scope::Matching => NLM_F_REQUEST | NLM_F_DUMP,
    };
    let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]); // sequence, port
    bytes.extend(body);
    bytes
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    More,
    Complete,
}

/// Reads the messages of one datagram.
fn read_response(
    mut datagram: &[u8],
    scope: Scope,
    f: &mut impl FnMut(&[u8]),
) -> rustix::io::Result<Progress> {
    while !datagram.is_empty() {
        let length = u32_at(datagram, 0).ok_or(Errno::BADMSG)? as usize;
        let message = datagram.get(HEADER_BYTES..length).ok_or(Errno::BADMSG)?;
        match u16_at(datagram, 4) {
            Some(SOCK_DIAG_BY_FAMILY) => f(message),
            Some(NLMSG_DONE) => return Ok(Progress::Complete),
            Some(NLMSG_ERROR) => return Err(error_of(message)),
            _ => return Err(Errno::BADMSG),
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(if scope == Scope::One { Progress::Complete } else { Progress::More })
}

/// `nlmsgerr`: a negative error number, then the request.
fn error_of(message: &[u8]) -> Errno {
    let code = u32_at(message, 0).map_or(0, |code| code.cast_signed().wrapping_neg());
    if code > 0 { Errno::from_raw_os_error(code) } else { Errno::BADMSG }
}

/// The value of the first attribute of this type. `None` if there is none, or an attribute before it is malformed.
pub(crate) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (length, kind) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "netlink speaks the machine's byte order")]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn read(datagram: &[u8]) -> (rustix::io::Result<Progress>, Vec<Vec<u8>>) {
        let mut seen = Vec::new();
        let result = read_response(datagram, Scope::Matching, &mut |body| seen.push(body.to_vec()));
        (result, seen)
    }

    #[test]
    fn every_message_is_read_up_to_the_end() {
        let two = [message(SOCK_DIAG_BY_FAMILY, b"abcd"), message(SOCK_DIAG_BY_FAMILY, b"efgh")].concat();
        assert_eq!(read(&two), (Ok(Progress::More), vec![b"abcd".to_vec(), b"efgh".to_vec()]));
        assert_eq!(read(&message(NLMSG_DONE, &[0; 4])), (Ok(Progress::Complete), vec![]));
        let refused = message(NLMSG_ERROR, &(-libc::ENOENT).to_ne_bytes());
        assert_eq!(read(&refused), (Err(Errno::NOENT), vec![]));
    }

    #[test]
    fn malformed_responses_are_refused() {
        let whole = message(SOCK_DIAG_BY_FAMILY, b"abcd");
        for length in 1..whole.len() {
            assert_eq!(read(&whole[..length]).0, Err(Errno::BADMSG), "cut after {length}");
        }
        assert_eq!(read(&[0; 16]).0, Err(Errno::BADMSG), "a message of no length");
        assert_eq!(read(&message(77, &[])).0, Err(Errno::BADMSG), "an unknown type");
        assert_eq!(read(&message(NLMSG_ERROR, &[])).0, Err(Errno::BADMSG), "an error without a number");
    }

    #[test]
    fn attributes_are_found_and_malformed_ones_refused() {
        let mut bytes = [5_u16.to_ne_bytes(), 3_u16.to_ne_bytes()].concat();
        bytes.extend([9, 0, 0, 0]);
        bytes.extend([8_u16.to_ne_bytes(), 4_u16.to_ne_bytes()].concat());
        bytes.extend([1, 2, 3, 4]);
        assert_eq!(attribute(&bytes, 3), Some(&[9][..]));
        assert_eq!(attribute(&bytes, 4), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&bytes, 5), None);
        assert_eq!(attribute(&bytes[..10], 4), None, "cut short");
        assert_eq!(attribute(&[0; 64], 4), None, "of no length");
    }
}
