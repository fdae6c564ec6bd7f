//! Threads that block, and no runtime: each worker greets one client at a time by the name that it sends.
//!
//!     cargo run --release -p bbq-listen --example std_threads -- 127.0.0.1:7701
//!     echo Alice | nc 127.0.0.1 7701
//!
//! A client that is slow holds up its worker alone: the stall monitor lets the others take what is queued for that worker.
//! When the server stops, each client that is queued or has sent nothing yet has a grace to send its name.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use bbq_listen::{
    Acceptor, FIRST_BYTE_GRACE_DEFAULT, Group, STALL_THRESHOLD_DEFAULT, StallMonitor, WorkerListener,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Longer names are cut.
const NAME_BYTES_MAX: u64 = 255;
/// So that a client that sends nothing does not have its worker for good.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits for the first byte of a client, and during a stop no longer than the grace. Returns whether it has come.
fn has_first_byte(stream: &TcpStream, stop: &impl AsFd) -> io::Result<bool> {
    let mut waits = [PollFd::new(stream, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    let [patience, grace] = [CLIENT_TIMEOUT, FIRST_BYTE_GRACE_DEFAULT].map(Timespec::try_from);
    let (patience, grace) = (patience.map_err(io::Error::other)?, grace.map_err(io::Error::other)?);
    retry_on_intr(|| poll(&mut waits, Some(&patience)))?;
    if waits[0].revents().is_empty() && !waits[1].revents().is_empty() {
        retry_on_intr(|| poll(&mut waits[..1], Some(&grace)))?;
    }
    Ok(!waits[0].revents().is_empty())
}

fn greet(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut name = String::new();
    BufReader::new(stream.take(NAME_BYTES_MAX)).read_line(&mut name)?;
    stream.write_all(format!("Hello, {}\n", name.trim_end()).as_bytes())
}

/// One worker.
fn work(worker_listener: WorkerListener, stop: impl AsFd) -> io::Result<()> {
    let acceptor = Acceptor::new(worker_listener)?;
    while let Some(accepted) = acceptor.accept_until(&stop)? {
        let stream = TcpStream::from(accepted.stream);
        if has_first_byte(&stream, &stop)?
            && let Err(error) = greet(&stream)
        {
            eprintln!("{}: {error}", accepted.peer);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7701".to_owned());
    // Before the threads start, so that no signal ends the process on the spot.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let group = Group::at(&address)?.activated_or_open()?;
    let _monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, |event| eprintln!("{event:?}"))?;
    let (stop, stopping) = io::pipe()?;
    thread::scope(|threads| {
        let workers = group.worker_listeners();
        let workers: Vec<_> = workers.map(|worker| threads.spawn(|| work(worker, &stop))).collect();
        println!("listening on {}", group.local_address());
        signals.forever().next();
        group.pause();
        drop(stopping);
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
