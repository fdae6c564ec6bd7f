//! Seed 000's greeter: a name per connection, `Hello, NAME` in the log of the worker that took it.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use bbq_listen::{Accepted, AsyncConnection, Errno};
use rustix::net::{RecvFlags, recv};

/// Longer names are cut.
const NAME_BYTES_MAX: usize = 255;

/// One worker's log.
#[derive(Debug)]
pub(super) struct Greeter(File);

impl Greeter {
    pub(super) fn new(logs: &Path, worker: usize) -> anyhow::Result<Arc<Greeter>> {
        let path = logs.join(format!("worker_{worker}.log"));
        Ok(Arc::new(Greeter(
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?,
        )))
    }

    fn greet(&self, name: &[u8], count: &AtomicU64) {
        let name = name.trim_ascii_end();
        if name.is_empty() {
            return;
        }
        // One write a line, as the seed has it.
        let line = format!("Hello, {}\n", String::from_utf8_lossy(name).escape_debug());
        if (&self.0).write_all(line.as_bytes()).is_ok() {
            count.fetch_add(1, Relaxed);
        }
    }
}

thread_local! {
    static BUFFER: RefCell<[u8; NAME_BYTES_MAX + 1]> = const { RefCell::new([0; NAME_BYTES_MAX + 1]) };
}

/// Reads what is there; mostly that is all, and no task is needed.
pub(super) fn begin(accepted: Accepted, greeter: &Arc<Greeter>, count: &Arc<AtomicU64>) {
    let mut name = Vec::new();
    if read(accepted.stream.as_fd(), &mut name) {
        return greeter.greet(&name, count);
    }
    let (greeter, count) = (Arc::clone(greeter), Arc::clone(count));
    tokio::spawn(async move {
        let _open = accepted.open;
        let Ok(connection) = AsyncConnection::for_reading(accepted.stream) else { return };
        while let Ok(mut ready) = connection.readable().await {
            if read(connection.as_fd(), &mut name) {
                return greeter.greet(&name, &count);
            }
            ready.clear_ready();
        }
    });
}

/// Reads until nothing is left for now; true at the end of the connection. A broken one counts as ended.
fn read(stream: BorrowedFd<'_>, name: &mut Vec<u8>) -> bool {
    BUFFER.with_borrow_mut(|buffer| {
        loop {
            match recv(stream, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return true,
                Ok((length, _)) => {
                    let room = NAME_BYTES_MAX - name.len();
                    name.extend_from_slice(&buffer[..length.min(room)]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    })
}
