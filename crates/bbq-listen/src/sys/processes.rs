//! System calls for processes that share one table of descriptors: clone, shared memory, descriptors by number, and the byte counts
//! of a connection.

use std::io;
use std::mem;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::process::Pid;
use rustix::thread::sched_yield;

use super::read_option;

/// `CLONE_CLEAR_SIGHAND` (Linux 5.5): the child has the default action for each signal that the parent handles. It has more than 32
/// bits, which libc's constant cannot represent.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
/// `__WALL` of waitpid(2): waits also for children that send no SIGCHLD, as those of [`clone_sharing_descriptors`].
pub const WAIT_FOR_CLONES: u32 = libc::__WALL.cast_unsigned();
/// 64-bit words of `struct clone_args` as Linux 5.3 has it.
const CLONE_WORDS: usize = 8;

/// A joined thread may still be listed for a moment. After this many checks it counts as running.
const THREAD_CHECKS_MAX: usize = 1000;

/// 32-bit words of `struct tcp_info` up to and including `tcpi_bytes_received` (Linux 4.1).
const TCP_INFO_WORDS: usize = 34;
/// Where `tcpi_bytes_acked` and `tcpi_bytes_received` begin, 64 bits each.
const TCP_INFO_BYTES_ACKED: usize = 30;
const TCP_INFO_BYTES_RECEIVED: usize = 32;

/// `TCP_CLOSE_WAIT`, `TCP_LAST_ACK` and `TCP_CLOSING` of net/tcp_states.h: the peer's FIN has arrived, and was counted as a byte.
const STATES_AFTER_FIN: [u32; 3] = [8, 9, 11];

/// 64-bit words that this process shares with the processes that it clones later. Zero at first. Unmapped when dropped.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    count: usize,
}

impl SharedWords {
    /// Maps `count` words, at least one. Pages that are never touched use no memory.
    pub fn new(count: usize) -> io::Result<Self> {
        let bytes = count.checked_mul(mem::size_of::<AtomicU64>()).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, count })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `count` words long, aligned to a page and zeroed by the kernel, and lives as long as self;
        // all users access it as atomics only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and every borrow of it has ended. Other processes keep theirs.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * mem::size_of::<AtomicU64>()) };
    }
}

// SAFETY: it is accessed as atomics only, and unmapped once.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

/// A child process, not yet waited for.
#[derive(Debug)]
pub struct ChildProcess {
    /// Its process id.
    pub pid: Pid,
    /// Readable when it has ended.
    pub ended: OwnedFd,
}

/// Runs `f` in a child process that has its own memory but shares the table of descriptors. What either process opens or closes is
/// open or closed in both, and the descriptors stay open when the child dies. The child exits after `f` without dropping any value
/// of this process; its exit status is 0 if `f` returns true.
///
/// Returns an error while this process has other threads: a lock that one of them holds would never be released in the child.
///
/// The parent gets no SIGCHLD when the child ends, so it does not matter whether SIGCHLD is ignored, when the kernel would not
/// keep the child's exit status. Wait for the child with [`WAIT_FOR_CLONES`].
///
/// In the child, signals have their default actions, unless they are ignored. The C library still has the parent's thread id, so
/// raise(3) does not work.
pub fn clone_sharing_descriptors(f: &dyn Fn() -> bool) -> io::Result<ChildProcess> {
    let mut checks = 0;
    while std::fs::read_dir("/proc/self/task")?.count() != 1 {
        checks += 1;
        if checks == THREAD_CHECKS_MAX {
            return Err(io::Error::other("the process has several threads: clone before any is started"));
        }
        sched_yield();
    }
    let mut pidfd: RawFd = -1;
    let mut arguments = [0_u64; CLONE_WORDS];
    arguments[0] = libc::CLONE_FILES as u64 | libc::CLONE_PIDFD as u64 | CLONE_CLEAR_SIGHAND;
    arguments[1] = (&raw mut pidfd) as u64;
    // The exit signal, the fifth word, stays 0.
    // SAFETY: the words are a `struct clone_args` of the given size, and its only pointer is to a writable int.
    // Without CLONE_VM and a stack this is fork(2) with shared descriptors: the child continues here with a copy of the memory.
    // There is no other thread whose locks or unfinished work could be copied.
    let result = unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), mem::size_of_val(&arguments)) };
    match result {
        0 => {
            let is_done = catch_unwind(AssertUnwindSafe(f)).unwrap_or(false);
            // SAFETY: it ends the process at once. Nothing is dropped, as that would close descriptors of the parent.
            unsafe { libc::_exit(i32::from(!is_done)) }
        }
        pid if pid > 0 => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
            // SAFETY: the kernel has just opened it for this process, and it has no other owner.
            let ended = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(ChildProcess { pid, ended })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Borrows a descriptor by its number.
///
/// # Safety
/// The number is not -1. It stays open for as long as it is borrowed, or is used for system calls only that are harmless for any
/// descriptor.
pub unsafe fn borrow_number<'a>(number: RawFd) -> BorrowedFd<'a> {
    // SAFETY: what the caller promises.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Closes a descriptor by its number.
///
/// # Safety
/// It is open, and only the caller owns it.
pub unsafe fn close_number(number: RawFd) {
    // SAFETY: what the caller promises.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
}

/// Byte counts of a connection since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were written.
    pub written: u64,
    /// Bytes that were read, not only peeked at.
    pub read: u64,
}

/// The byte counts of a tcp connection whose sending side was not shut down.
///
/// Written is what was acknowledged plus what was not (`tcpi_bytes_acked`, `SIOCOUTQ`); read is what was received minus what is
/// queued (`tcpi_bytes_received`, `SIOCINQ`). These are several system calls, which are repeated until the counts do not change
/// in between.
pub fn tcp_progress(connection: BorrowedFd<'_>) -> io::Result<Progress> {
    let mut before = tcp_counts(connection)?;
    loop {
        let unacknowledged = queue_bytes(connection, libc::TIOCOUTQ)?;
        let unread = queue_bytes(connection, libc::FIONREAD)?;
        let after = tcp_counts(connection)?;
        if before == after {
            let (acknowledged, received) = after;
            return Ok(Progress {
                written: acknowledged + unacknowledged,
                read: received.saturating_sub(unread),
            });
        }
        before = after;
    }
}

/// Bytes that the peer has acknowledged, and bytes that were received.
fn tcp_counts(connection: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let words: [u32; TCP_INFO_WORDS] = read_option(connection, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    let (low, high) = if cfg!(target_endian = "little") { (0, 1) } else { (1, 0) };
    let count = |at: usize| u64::from(words[at + high]) << 32 | u64::from(words[at + low]);
    // The state is the first byte.
    let has_fin = STATES_AFTER_FIN.contains(&(words[0].to_le() & 0xff));
    let received = count(TCP_INFO_BYTES_RECEIVED).saturating_sub(has_fin.into());
    Ok((count(TCP_INFO_BYTES_ACKED), received))
}

/// How many of the bytes that were written to a connection are still on their way: over TCP those that the peer's system has not
/// acknowledged (`SIOCOUTQ`), over a unix socket the memory of those that the peer has not read.
///
/// # Errors
/// The descriptor is no connected stream socket.
pub fn unacknowledged_bytes(connection: impl AsFd) -> io::Result<u64> {
    queue_bytes(connection.as_fd(), libc::TIOCOUTQ)
}

/// Bytes in one of a connection's queues.
fn queue_bytes(connection: BorrowedFd<'_>, which: libc::Ioctl) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one int to `bytes`; the descriptor is open for as long as it is borrowed.
    if unsafe { libc::ioctl(connection.as_raw_fd(), which, &raw mut bytes) } != 0 {
        return Err(io::Error::last_os_error());
    }
    u64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn both_directions_of_a_connection_are_counted_and_its_end_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let progress = |written, read| Progress { written, read };
        let seen = |server: &TcpStream| tcp_progress(server.as_fd()).unwrap();
        assert_eq!(seen(&server), progress(0, 0));
        client.write_all(&[0; 1000]).unwrap();
        server.read_exact(&mut [0; 300]).unwrap();
        assert_eq!(seen(&server), progress(0, 300));
        // Writes more than the client's buffer takes, so that some of it is not sent yet.
        server.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(length) = server.write(&[0; 10_000]) {
            written += length;
        }
        assert_eq!(seen(&server), progress(written as u64, 300));
        let on_their_way = unacknowledged_bytes(&server).unwrap();
        assert!(0 < on_their_way && on_their_way < written as u64, "{on_their_way} of {written}");
        client.shutdown(Shutdown::Write).unwrap();
        let mut left = vec![0; 700];
        server.read_exact(&mut left[..600]).unwrap();
        // On loopback the FIN arrives directly behind the data.
        assert_eq!(seen(&server), progress(written as u64, 900));
        server.read_exact(&mut left[..100]).unwrap();
        assert_eq!(server.read(&mut left).unwrap(), 0);
        assert_eq!(seen(&server), progress(written as u64, 1000));
        client.read_exact(&mut vec![0; written]).unwrap();
        assert_eq!(seen(&server), progress(written as u64, 1000));
    }

    #[test]
    fn words_are_zero_and_keep_what_is_stored() {
        let words = SharedWords::new(3).unwrap();
        assert!(words.iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 0));
        words[2].store(7, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(words[2].load(std::sync::atomic::Ordering::Relaxed), 7);
        assert_eq!(words.len(), 3);
    }
}
