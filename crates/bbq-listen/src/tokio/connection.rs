//! A connection of any transport on a tokio runtime. It only tells readiness; the caller makes the system calls.
//!
//! Register only connections that would block. Many are read to their end right after they were accepted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::sys::{Directions, register_connection};

/// A registered connection. Reading and writing go through its descriptor, without waiting, until they would block; then
/// [`clear_ready`](AsyncFdReadyGuard::clear_ready) and wait again.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::ErrorKind;
///
/// use bbq_listen::AsyncConnection;
/// use rustix::io::{Errno, read};
///
/// # let group = bbq_listen::Group::at("127.0.0.1:7701")?.open()?;
/// # group.run_tokio(async |mut listener| loop {
/// listener
///     .accept_batch(64, |accepted| {
///         let Ok(connection) = AsyncConnection::for_reading(accepted.stream) else { return };
///         tokio::spawn(async move {
///             let mut buffer = [0; 1024];
///             loop {
///                 match read(&connection, &mut buffer) {
///                     Ok(0) => return Ok(()),
///                     Ok(length) => println!("{length} bytes"),
///                     Err(Errno::AGAIN) => connection.readable().await?.clear_ready(),
///                     Err(errno) => return Err(std::io::Error::from(errno)),
///                 }
///             }
///         });
///     })
///     .await?;
/// # })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncConnection {
    registration: AsyncFd<OwnedFd>,
}

impl AsyncConnection {
    /// Registers a connection that is only read.
    pub fn for_reading(stream: OwnedFd) -> io::Result<AsyncConnection> {
        Ok(AsyncConnection { registration: register_connection(stream, Directions::Read)? })
    }

    /// Registers a connection that is read and written.
    pub fn for_both(stream: OwnedFd) -> io::Result<AsyncConnection> {
        Ok(AsyncConnection { registration: register_connection(stream, Directions::Both)? })
    }

    /// Waits until there is something to read, or the peer has ended.
    ///
    /// # Errors
    /// Only when the runtime is shutting down.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.registration.readable().await
    }

    /// Waits until something can be written; only for a connection registered [`for_both`](Self::for_both).
    ///
    /// # Errors
    /// Only when the runtime is shutting down.
    pub async fn writable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.registration.writable().await
    }
}

impl AsFd for AsyncConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.registration.get_ref().as_fd()
    }
}

impl From<AsyncConnection> for OwnedFd {
    /// Removes it from the runtime, and leaves it open.
    fn from(connection: AsyncConnection) -> OwnedFd {
        connection.registration.into_inner()
    }
}
