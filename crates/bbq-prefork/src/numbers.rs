//! Descriptors by their numbers.
//!
//! The processes of a pool share one table of descriptors, and a connection outlives the process that accepted it. So no value of Rust
//! owns a connection: the ledger says whose it is, by its number and its cookie.
//!
//! Invariant: a connection is closed by the child that the ledger names, or by the master after that child has ended.

#![expect(unsafe_code, reason = "the ledger says who owns a number, which the compiler cannot see")]

use std::os::fd::{BorrowedFd, RawFd};

use bbq_listen::for_prefork::{borrow_number, close_number};

/// Borrows the descriptor with this number, which the kernel has named: in an accept, the ledger, an epoll or /proc/self/fd. It is for
/// system calls that change nothing if the descriptor is another by now, or that follow a look at its cookie.
pub(crate) fn borrow<'a>(number: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the kernel named it, so it is not -1. What is called with it returns EBADF if it was closed meanwhile; no memory depends
    // on it.
    unsafe { borrow_number(number) }
}

/// Closes a connection of which this process has become the owner: by its accept, by the ledger, or by the death of a child.
pub(crate) fn close(number: RawFd) {
    // SAFETY: no value owns it, as the number was taken out of the one that accept returned (`into_raw_fd`), and by the invariant no
    // other process closes it.
    unsafe { close_number(number) }
}
