//! Queue length of a listening unix socket, from the kernel's socket diagnosis (`UNIX_DIAG`).
//!
//! In the machine's byte order:
//!
//! ```text
//! unix_diag_req  family u8, protocol u8, padding u16, states u32, inode u32, show u32, cookie 2 x u32
//! unix_diag_msg  family u8, type u8, state u8, padding u8, inode u32, cookie 2 x u32, then attributes
//! UNIX_DIAG_RQLEN  queue u32, backlog u32
//! ```

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::diagnose::netlink::{Scope, attribute, query, u32_at};

const UDIAG_SHOW_RQLEN: u32 = 0x10;
const UNIX_DIAG_RQLEN: u16 = 4;

const REQUEST_BYTES: usize = 24;
const RESPONSE_BYTES: usize = 16;

/// The accept queue: its length, and the backlog.
pub(crate) fn listen_queue(socket: BorrowedFd<'_>) -> rustix::io::Result<(u32, u32)> {
    let inode = u32::try_from(rustix::fs::fstat(socket)?.st_ino).map_err(|_| Errno::OVERFLOW)?;
    let mut found = None;
    query(Scope::One, &request(inode), |message| found = decode(message))?;
    found.ok_or(Errno::BADMSG)
}

#[expect(clippy::disallowed_methods, reason = "netlink speaks the machine's byte order")]
fn request(inode: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0_u8; REQUEST_BYTES];
    bytes[0] = libc::AF_UNIX as u8;
    bytes[4..8].copy_from_slice(&u32::MAX.to_ne_bytes()); // every state
    bytes[8..12].copy_from_slice(&inode.to_ne_bytes());
    bytes[12..16].copy_from_slice(&UDIAG_SHOW_RQLEN.to_ne_bytes());
    bytes[16..24].fill(0xff); // any cookie
    bytes
}

/// `None` without the attribute.
fn decode(message: &[u8]) -> Option<(u32, u32)> {
    let lengths = attribute(message.get(RESPONSE_BYTES..)?, UNIX_DIAG_RQLEN)?;
    Some((u32_at(lengths, 0)?, u32_at(lengths, 4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_responses_are_refused() {
        let mut bytes = [0_u8; 48];
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&bytes), None, "attributes of no length");
        bytes[16..20].copy_from_slice(&if cfg!(target_endian = "little") {
            [12, 0, 4, 0]
        } else {
            [0, 12, 0, 4]
        });
        bytes[20] = 9;
        assert_eq!(decode(&bytes).map(|(queue, _)| u32::from_le(queue)), Some(9));
        assert_eq!(decode(&bytes[..26]), None, "cut short");
    }
}
