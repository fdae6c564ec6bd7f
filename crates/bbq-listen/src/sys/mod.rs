//! System calls that no library wraps safely: `TCP_INFO` of a listening socket, `SO_MEMINFO`, programs for `SO_REUSEPORT`,
//! `TCP_DEFER_ACCEPT`, `recvmmsg`, `sendmmsg` with `UDP_SEGMENT`, both with `IP_PKTINFO`, inherited descriptors, registration with tokio,
//! mallopt(3), and the names of users and groups.
//!
//! It only moves numbers and bytes between the kernel and safe types.
//!
//! Invariant: `unsafe` is in this module, in `accounts`, in `bpf` and in `processes` only.
//! Invariant: no pointer outlives the call it was made for.

#![expect(unsafe_code, reason = "the raw system calls of this crate live here, and only here")]

pub(crate) mod accounts;
pub(crate) mod bpf;
pub(crate) mod processes;

use std::io;
use std::io::IoSlice;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
#[cfg(feature = "tokio")]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::SockAddr;
#[cfg(feature = "tokio")]
use tokio::io::{Interest, unix::AsyncFd};

/// Most datagrams of one `recvmmsg`, and messages of one `sendmmsg`. With 32 the call costs little compared with copying the
/// datagrams, and each further datagram needs a buffer of 64 KiB.
pub const DATAGRAMS_PER_CALL: usize = 32;

/// Bytes of a peer's name that are read: `struct sockaddr_in6`, the longest that carries an IP address.
const NAME_BYTES: usize = 28;

/// The first descriptor that a service manager passes: `SD_LISTEN_FDS_START`.
const LISTEN_FDS_START: RawFd = 3;
/// The most of them: far more than any program has socket units, and a limit if the environment is garbage.
const PASSED_MAX: u32 = 4096;

/// `SO_MEMINFO` of `asm-generic/socket.h`; mips, parisc and sparc have other numbers.
const SO_MEMINFO: libc::c_int = 55;

/// 32-bit words of `struct tcp_info` up to and including `tcpi_sacked`.
const TCP_INFO_WORDS: usize = 8;
const TCP_INFO_UNACKED: usize = 6;
const TCP_INFO_SACKED: usize = 7;
/// The same up to and including `tcpi_last_data_sent`.
const TCP_INFO_WORDS_TO_LAST_SENT: usize = 12;
const TCP_INFO_LAST_DATA_SENT: usize = 11;

/// Words of `SO_MEMINFO`, `SK_MEMINFO_VARS` in linux/sock_diag.h.
const MEMINFO_WORDS: usize = 9;

/// Sets the size from which on an allocation gets a mapping of its own, and how much free memory may stay at the end of a heap:
/// mallopt(3). Only glibc has it.
pub(crate) fn set_malloc_thresholds(own_mapping_bytes: i32, kept_bytes: i32) {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: both calls take numbers and only change how malloc works. Numbers out of range have no effect.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, own_mapping_bytes);
            libc::mallopt(libc::M_TRIM_THRESHOLD, kept_bytes);
        }
    }
    #[cfg(not(target_env = "gnu"))]
    let _unused = (own_mapping_bytes, kept_bytes);
}

/// Sets how many heaps the threads share: mallopt(3). Only glibc has it.
pub(crate) fn set_malloc_heaps(heaps_max: i32) {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the call takes numbers and only changes how malloc works. A number out of range has no effect.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, heaps_max);
        }
    }
    #[cfg(not(target_env = "gnu"))]
    let _unused = heaps_max;
}

/// The memory of a socket (`SO_MEMINFO`, Linux 4.12).
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryInfo {
    /// Memory of the receive queue, with the kernel's overhead.
    pub(crate) receive_bytes: u32,
    /// `SO_RCVBUF`, which is twice what was granted.
    pub(crate) receive_bytes_max: u32,
    /// Datagrams or connections dropped, modulo 2^32.
    pub(crate) drops: u32,
}

/// The sender and the length of a datagram of `recvmmsg`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// The start of the peer's `sockaddr`; `AF_UNSPEC` (zero) when it has none.
    pub(crate) name: [u8; NAME_BYTES],
    /// 0 <= length <= the buffer of a datagram.
    pub(crate) length: usize,
    /// Whether the datagram was longer than its buffer; the rest is lost.
    pub(crate) truncated: bool,
    /// The address of this machine that it was sent to, if that was asked for, and a reply can leave from there.
    pub(crate) local: Option<IpAddr>,
    /// Pid, uid and gid of the sender, if that was asked for.
    pub(crate) credentials: Option<[u32; 3]>,
}

impl Slot {
    pub(crate) const EMPTY: Self =
        Self { name: [0; NAME_BYTES], length: 0, truncated: false, local: None, credentials: None };
}

/// Queue length and backlog of a TCP socket that listens: the kernel reports them as `tcpi_unacked` and `tcpi_sacked`
/// (net/ipv4/tcp.c, `tcp_get_info`).
pub(crate) fn tcp_listen_queue(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let words: [u32; TCP_INFO_WORDS] = read_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok((words[TCP_INFO_UNACKED], words[TCP_INFO_SACKED]))
}

/// Milliseconds since a connection last sent data; before it has sent any, since its handshake.
pub(crate) fn tcp_last_sent_ms(connection: BorrowedFd<'_>) -> io::Result<u32> {
    let words: [u32; TCP_INFO_WORDS_TO_LAST_SENT] =
        read_option(connection, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(words[TCP_INFO_LAST_DATA_SENT])
}

/// Memory and drops of any socket.
pub(crate) fn memory_info(socket: BorrowedFd<'_>) -> io::Result<MemoryInfo> {
    let words: [u32; MEMINFO_WORDS] = read_option(socket, libc::SOL_SOCKET, SO_MEMINFO)?;
    Ok(MemoryInfo { receive_bytes: words[0], receive_bytes_max: words[1], drops: words[8] })
}

/// Reads a socket option that is an array of 32-bit words. An older kernel that returns fewer words is an error.
fn read_option<const WORDS: usize>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<[u32; WORDS]> {
    let mut words = [0_u32; WORDS];
    let wanted = mem::size_of_val(&words) as libc::socklen_t;
    let mut length = wanted;
    // SAFETY: `words` is writable for `length` bytes and any bit pattern is a valid u32; `length` is writable; the descriptor is
    // open for as long as it is borrowed.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, words.as_mut_ptr().cast(), &raw mut length)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if length < wanted {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(words)
}

/// One instruction of classic BPF (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) k: u32,
}

/// Attaches `program` to the reuseport group of `socket`; `None` detaches it, so that the kernel's hash chooses.
pub(crate) fn choose_by(socket: BorrowedFd<'_>, program: Option<&[Instruction]>) -> io::Result<()> {
    let Some(program) = program else {
        // SAFETY: an int has no pointers, and the kernel ignores it.
        return unsafe { set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &0_i32) };
    };
    let mut filter: Vec<libc::sock_filter> = program
        .iter()
        .map(|one| libc::sock_filter { code: one.code, jt: one.jump_true, jf: one.jump_false, k: one.k })
        .collect();
    let length = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let whole = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: `whole` has the exact length of `filter`, which the kernel only reads, during the call.
    unsafe { set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &whole) }
}

/// Sets for how many seconds a connection may wait for its first bytes before it is accepted (`TCP_DEFER_ACCEPT`); 0 does not
/// wait.
pub(crate) fn set_defer_accept(socket: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    let seconds = libc::c_int::try_from(seconds).unwrap_or(libc::c_int::MAX);
    // SAFETY: an int has no pointers.
    unsafe { set_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds) }
}

/// Sets an option of `level`.
///
/// # Safety
/// The pointers in `value` are valid for what the option does with them during the call.
unsafe fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = mem::size_of_val(value) as libc::socklen_t;
    // SAFETY: `value` is readable for `length` bytes, and the kernel only reads it, during the call; the descriptor is open for
    // as long as it is borrowed; the caller vouches for the pointers.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel tells of each datagram which address of this machine it was sent to.
pub(crate) fn tell_local_address(socket: BorrowedFd<'_>, is_ipv6: bool) -> io::Result<()> {
    let (level, name) = if is_ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    // SAFETY: an int has no pointers.
    unsafe { set_option(socket, level, name, &1_i32) }
}

/// The kernel tells of each datagram of a unix socket which process sent it.
pub(crate) fn tell_credentials(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an int has no pointers.
    unsafe { set_option(socket, libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32) }
}

/// Pid, uid and gid of who made a connection of a unix socket.
pub(crate) fn peer_credentials(connection: BorrowedFd<'_>) -> io::Result<[u32; 3]> {
    read_option(connection, libc::SOL_SOCKET, libc::SO_PEERCRED)
}

/// `in_pktinfo` (interface u32, address to reply from, address in the packet) or `in6_pktinfo` (address, interface u32), or `ucred`
/// (pid, uid, gid) as control data. It is directly behind the header, where the C macros put it.
#[repr(C)]
#[derive(Clone, Copy)]
struct PacketControl {
    header: libc::cmsghdr,
    data: [u8; 24],
}

const PACKET_BYTES_V4: usize = 12;
const PACKET_BYTES_V6: usize = 20;
// SAFETY: CMSG_SPACE and CMSG_LEN only calculate.
const PACKET_SPACES: [usize; 2] = unsafe {
    [libc::CMSG_SPACE(PACKET_BYTES_V4 as u32) as usize, libc::CMSG_SPACE(PACKET_BYTES_V6 as u32) as usize]
};
// SAFETY: as above.
const PACKET_LENGTHS: [usize; 2] = unsafe {
    [libc::CMSG_LEN(PACKET_BYTES_V4 as u32) as usize, libc::CMSG_LEN(PACKET_BYTES_V6 as u32) as usize]
};
// SAFETY: as above.
const CREDENTIALS_LENGTH: usize = unsafe { libc::CMSG_LEN(mem::size_of::<libc::ucred>() as u32) } as usize;
const _: () =
    assert!(CREDENTIALS_LENGTH == mem::offset_of!(PacketControl, data) + mem::size_of::<[u32; 3]>());
const _: () = assert!(PACKET_SPACES[1] <= mem::size_of::<PacketControl>());
const _: () = assert!(PACKET_LENGTHS[0] == mem::offset_of!(PacketControl, data) + PACKET_BYTES_V4);

impl PacketControl {
    /// The address to reply from, of control data of which `length` bytes were written. A multicast address is none.
    fn local(&self, length: usize) -> Option<IpAddr> {
        let bytes = &self.data;
        match (self.header.cmsg_level, self.header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if length >= PACKET_LENGTHS[0] => {
                Some(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]).into())
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if length >= PACKET_LENGTHS[1] => {
                let address: [u8; 16] = bytes[..16].try_into().ok()?;
                Some(Ipv6Addr::from(address).to_canonical()).filter(|address| !address.is_multicast())
            }
            _ => None,
        }
    }

    /// Pid, uid and gid, of control data of which `length` bytes were written.
    fn credentials(&self, length: usize) -> Option<[u32; 3]> {
        let is_told = (self.header.cmsg_level, self.header.cmsg_type)
            == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS)
            && length >= CREDENTIALS_LENGTH;
        let (words, _) = self.data.as_chunks::<4>();
        is_told.then(|| [words[0], words[1], words[2]].map(u32::from_ne_bytes))
    }

    /// Makes a message to `peer` leave from `local`. Returns the length of the control data.
    fn set_local(&mut self, local: IpAddr, peer: SocketAddr) -> usize {
        let is_ipv6 = peer.is_ipv6();
        match (local, is_ipv6) {
            (IpAddr::V4(local), false) => self.data[4..8].copy_from_slice(&local.octets()),
            (IpAddr::V4(local), true) => {
                self.data[..16].copy_from_slice(&local.to_ipv6_mapped().octets());
            }
            (IpAddr::V6(local), true) => self.data[..16].copy_from_slice(&local.octets()),
            // An IPv4 peer of an IPv6 address: no control data.
            (IpAddr::V6(_), false) => return 0,
        }
        (self.header.cmsg_level, self.header.cmsg_type) = if is_ipv6 {
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
        } else {
            (libc::IPPROTO_IP, libc::IP_PKTINFO)
        };
        self.header.cmsg_len = PACKET_LENGTHS[usize::from(is_ipv6)] as _;
        PACKET_SPACES[usize::from(is_ipv6)]
    }
}

/// Receives up to [`DATAGRAMS_PER_CALL`] datagrams, the i-th into the i-th `datagram_bytes` of `storage`, and no more than
/// `storage` and `slots` have room for. Returns how many; never waits. `with_control` is for sockets of
/// [`tell_local_address`] and [`tell_credentials`].
pub(crate) fn receive_many(
    socket: BorrowedFd<'_>,
    with_control: bool,
    storage: &mut [u8],
    datagram_bytes: usize,
    slots: &mut [Slot],
) -> io::Result<usize> {
    // SAFETY: `mmsghdr` and `iovec` are plain C structs of integers and pointers, for which zero is a valid value.
    let mut headers: [libc::mmsghdr; DATAGRAMS_PER_CALL] = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut vectors: [libc::iovec; DATAGRAMS_PER_CALL] = unsafe { mem::zeroed() };
    // SAFETY: integers and bytes, for which zero is a valid value.
    let mut controls: [PacketControl; DATAGRAMS_PER_CALL] = unsafe { mem::zeroed() };
    let mut count = 0;
    let places = storage.chunks_exact_mut(datagram_bytes).zip(slots.iter_mut());
    for ((place, slot), (header, vector)) in places.zip(headers.iter_mut().zip(vectors.iter_mut())) {
        slot.name[..2].fill(0);
        vector.iov_base = place.as_mut_ptr().cast();
        vector.iov_len = place.len();
        header.msg_hdr.msg_name = slot.name.as_mut_ptr().cast();
        header.msg_hdr.msg_namelen = NAME_BYTES as libc::socklen_t;
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    if with_control {
        for (header, control) in headers.iter_mut().zip(controls.iter_mut()) {
            header.msg_hdr.msg_control = (control as *mut PacketControl).cast();
            header.msg_hdr.msg_controllen = mem::size_of::<PacketControl>() as _;
        }
    }
    // SAFETY: the first `count` headers each point to one iovec over a distinct chunk of `storage`, to the name of a distinct slot,
    // and perhaps to distinct control data of integers and bytes, with their exact lengths; all of them outlive the call, and nothing
    // else touches them meanwhile.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for ((slot, header), control) in slots.iter_mut().zip(&headers).zip(&controls).take(received) {
        // Zeroes, without control data. The type of the length is another one with musl.
        slot.local = control.local(header.msg_hdr.msg_controllen as _);
        slot.credentials = control.credentials(header.msg_hdr.msg_controllen as _);
        slot.length = (header.msg_len as usize).min(datagram_bytes);
        slot.truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
    }
    Ok(received)
}

/// One message of a `sendmmsg`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) peer: SocketAddr,
    /// The address of this machine that it leaves from; `None` leaves the choice to the kernel.
    pub(crate) local: Option<IpAddr>,
    /// Its bytes, in several slices.
    pub(crate) pieces: &'a [IoSlice<'a>],
    /// The kernel cuts the message into datagrams of this length, the last of which may be shorter; `None` for one datagram.
    pub(crate) segment_bytes: Option<u16>,
}

/// `UDP_SEGMENT` as control data. The number is directly behind the header, where the C macros put it.
#[repr(C)]
#[derive(Clone, Copy)]
struct SegmentControl {
    header: libc::cmsghdr,
    segment_bytes: u16,
    // Up to where the next control data begins.
    padding: [u8; SEGMENT_CONTROL_SPACE - SEGMENT_CONTROL_LENGTH],
}

/// What a message may have: one, the other, or both without a gap.
#[repr(C)]
#[derive(Clone, Copy)]
struct SendControl {
    segment: SegmentControl,
    packet: PacketControl,
}

// SAFETY: CMSG_SPACE and CMSG_LEN only calculate.
const SEGMENT_CONTROL_SPACE: usize = unsafe { libc::CMSG_SPACE(2) } as usize;
// SAFETY: as above.
const SEGMENT_CONTROL_LENGTH: usize = unsafe { libc::CMSG_LEN(2) } as usize;
const _: () = assert!(SEGMENT_CONTROL_SPACE == mem::offset_of!(SendControl, packet));
const _: () = assert!(SEGMENT_CONTROL_LENGTH == mem::offset_of!(SegmentControl, segment_bytes) + 2);

/// Whether the kernel has `UDP_SEGMENT` (Linux 4.18). An older one ignores it, and would send one long datagram.
pub(crate) fn knows_segments(socket: BorrowedFd<'_>) -> bool {
    read_option::<1>(socket, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
}

/// Makes the kernel refuse segments on this socket, as on a device without checksums.
#[cfg(test)]
pub(crate) fn send_without_checksum(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an int has no pointers.
    unsafe { set_option(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1_i32) }
}

/// Makes the kernel refuse programs for this socket (`SO_LOCK_FILTER`).
#[cfg(test)]
pub(crate) fn lock_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an int has no pointers.
    unsafe { set_option(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1_i32) }
}

/// Sends up to [`DATAGRAMS_PER_CALL`] of `messages`, in order, without waiting. Returns how many the kernel took; an error is that
/// of the first message.
pub(crate) fn send_many(socket: BorrowedFd<'_>, messages: &[Message<'_>]) -> io::Result<usize> {
    let messages = &messages[..messages.len().min(DATAGRAMS_PER_CALL)];
    let names: Vec<SockAddr> = messages.iter().map(|message| message.peer.into()).collect();
    // SAFETY: all three are plain C structs of integers and pointers, for which zero is a valid value.
    let mut controls: [SendControl; DATAGRAMS_PER_CALL] = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; DATAGRAMS_PER_CALL] = unsafe { mem::zeroed() };
    let places = headers.iter_mut().zip(controls.iter_mut());
    for ((message, name), (header, control)) in messages.iter().zip(&names).zip(places) {
        let header = &mut header.msg_hdr;
        header.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_namelen = name.len();
        // IoSlice has the layout of iovec, by its documentation.
        header.msg_iov = message.pieces.as_ptr().cast_mut().cast();
        header.msg_iovlen = message.pieces.len() as _;
        let packet = message.local.map_or(0, |local| control.packet.set_local(local, message.peer));
        if let Some(segment_bytes) = message.segment_bytes {
            let segment = &mut control.segment;
            segment.header.cmsg_level = libc::SOL_UDP;
            segment.header.cmsg_type = libc::UDP_SEGMENT;
            segment.header.cmsg_len = SEGMENT_CONTROL_LENGTH as _;
            segment.segment_bytes = segment_bytes;
            header.msg_control = (control as *mut SendControl).cast();
            header.msg_controllen = (SEGMENT_CONTROL_SPACE + packet) as _;
        } else if packet > 0 {
            header.msg_control = (&raw mut control.packet).cast();
            header.msg_controllen = packet as _;
        }
    }
    // SAFETY: the first `messages.len()` headers each point to a name, to pieces and perhaps to control data, with their
    // exact lengths; all of them outlive the call, and the kernel only reads them. It writes `msg_len` of the headers.
    let taken = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            messages.len() as libc::c_uint,
            libc::MSG_DONTWAIT as _,
        )
    };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

/// Takes ownership of the descriptors that a service manager passed to this process (sd_listen_fds(3)): of the numbers from
/// [`LISTEN_FDS_START`] on. `None` after the first call.
///
/// # Errors
/// For each number that is not open.
pub(crate) fn take_passed(count: u32) -> Option<impl Iterator<Item = io::Result<OwnedFd>>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    let count = RawFd::try_from(count.min(PASSED_MAX)).unwrap_or(0);
    Some((LISTEN_FDS_START..LISTEN_FDS_START + count).map(|number| {
        // SAFETY: F_GETFD only reads flags, or fails.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is open, as was just checked. By the protocol it was opened for this process, which takes it once: this function
        // gives the numbers out once, and an iterator each of them once.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }))
}

/// Registers a descriptor for reading with the current tokio runtime. Several runtimes may register the same one: each has its own
/// epoll.
#[cfg(feature = "tokio")]
pub fn register_readable(descriptor: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an OwnedFd is open and keeps its number for as long as it lives; the registration owns a share of it, and the value
    // in a shared Arc cannot be replaced.
    let registration = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    registration.map_err(|error| error.into_parts().1)
}

/// What a connection is registered for.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy)]
pub(crate) enum Directions {
    Read,
    Both,
}

/// Registers a connection with the current tokio runtime.
#[cfg(feature = "tokio")]
pub(crate) fn register_connection(stream: OwnedFd, directions: Directions) -> io::Result<AsyncFd<OwnedFd>> {
    let interest = match directions {
        Directions::Read => Interest::READABLE,
        Directions::Both => Interest::READABLE | Interest::WRITABLE,
    };
    // SAFETY: the registration owns the descriptor and lends it only by shared reference, so it stays open and the same
    // number until the registration is dropped.
    let registration = unsafe { AsyncFd::register_with_interest(stream, interest) };
    registration.map_err(|error| error.into_parts().1)
}
