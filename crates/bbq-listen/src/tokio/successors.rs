//! Passes the sockets of a run on to a successor, and tells when it serves. `sockets/hand_over.rs` draws the packets.
//!
//! Invariant: one successor after the other is served, and none for longer than `START_TIMEOUT`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::sockets::hand_over::{
    HandOver, asks, check_user, listen_at, pass_on, receive, says_that_it_serves,
};
use crate::sockets::unix_path::OwnedPath;
use crate::sys::register_readable;
use crate::{Group, STARVED_PAUSE};

/// A successor that takes longer to start is given up. Loading what it needs may take it a while.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Where successors connect.
#[derive(Debug)]
pub(crate) struct Successors {
    /// Removed at the end, unless a successor has put its own there. Dropped first, as in `Group`.
    _file: OwnedPath,
    socket: AsyncFd<Arc<OwnedFd>>,
}

impl Successors {
    /// Listens for successors, and tells the process before that the workers of this one serve. Call it in a runtime.
    pub(crate) fn listen(mut hand_over: HandOver, groups: &[&Group]) -> io::Result<Self> {
        let socket = register_readable(Arc::new(listen_at(&hand_over.path)?))?;
        let file = OwnedPath::created(&hand_over.path)?;
        for group in groups.iter().filter(|group| hand_over.owned.contains(group.local_address())) {
            group.set_owns_file(true);
        }
        hand_over.serves();
        Ok(Self { _file: file, socket })
    }

    /// Completes when a successor serves `groups`.
    pub(crate) async fn one_serves(&self, groups: &[&Group]) {
        loop {
            // What fails concerns this successor alone, which sees it, too.
            match self.accept().await {
                Ok(successor) => {
                    if let Ok(Ok(true)) = timeout(START_TIMEOUT, serve(successor, groups)).await {
                        return;
                    }
                }
                Err(_) => tokio::time::sleep(STARVED_PAUSE).await,
            }
        }
    }

    async fn accept(&self) -> io::Result<OwnedFd> {
        loop {
            let mut ready = self.socket.readable().await?;
            match accept_with(ready.get_inner(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                accepted => return Ok(accepted?),
            }
        }
    }
}

/// Passes the sockets on. Returns whether the successor serves.
async fn serve(successor: OwnedFd, groups: &[&Group]) -> io::Result<bool> {
    check_user(&successor)?;
    let successor = register_readable(Arc::new(successor))?;
    if !asks(&next(&successor).await?) {
        return Ok(false);
    }
    pass_on(successor.as_fd(), groups)?;
    let serves = says_that_it_serves(&next(&successor).await?);
    if serves {
        // The successor removes them.
        groups.iter().for_each(|group| group.set_owns_file(false));
    }
    Ok(serves)
}

async fn next(successor: &AsyncFd<Arc<OwnedFd>>) -> io::Result<Vec<u8>> {
    loop {
        let mut ready = successor.readable().await?;
        match receive(successor) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            received => return received.map(|(packet, _descriptors)| packet),
        }
    }
}
