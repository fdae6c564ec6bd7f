//! mio on a group: each worker is a thread with an event loop of its own that sends back what it gets.
//!
//! On SIGTERM it accepts and echoes for the time of a grace. It ends when its last clients have had such a time, too, and nothing is
//! left to be written.
//!
//!     cargo run --release -p bbq-listen --example mio_echo -- 127.0.0.1:7701

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use bbq_listen::{
    ACCEPTS_PER_BATCH_MAX, Acceptor, DRAIN_TIMEOUT, FIRST_BYTE_GRACE_DEFAULT, Group, Heartbeat,
    STALL_THRESHOLD_DEFAULT, StallMonitor, WorkerListener,
};
use mio::{Events, Interest, Poll, Token, net::TcpStream, unix::SourceFd};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The token of the listener; connections have the numbers of their descriptors.
const LISTENER: Token = Token(usize::MAX);
/// The token of what hangs up when the server stops.
const STOP: Token = Token(usize::MAX - 1);
/// During a stop a worker looks so often whether its connections have ended.
const STOP_PAUSE: Duration = Duration::from_millis(10);
const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);
const READS_MAX: usize = 16; // of one connection; then the others have their turn

/// Sends back what is there; `unwritten` is what the kernel has not taken yet.
fn echo(stream: &mut TcpStream, unwritten: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    for _ in 0..READS_MAX {
        while !unwritten.is_empty() {
            unwritten.drain(..stream.write(unwritten)?);
        }
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            length => unwritten.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(())
}

fn work(worker_listener: WorkerListener, stop: &impl AsRawFd) -> io::Result<()> {
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(256));
    for descriptor in worker_listener.descriptors() {
        poll.registry().register(&mut SourceFd(&descriptor.as_raw_fd()), LISTENER, Interest::READABLE)?;
    }
    poll.registry().register(&mut SourceFd(&stop.as_raw_fd()), STOP, Interest::READABLE)?;
    let (acceptor, heartbeat) = (Acceptor::new(worker_listener)?, Heartbeat::of_this_thread());
    let (mut connections, mut timeout) = (HashMap::<Token, (TcpStream, Vec<u8>)>::new(), None);
    let (mut stops_since, mut last_accepted) = (None, Instant::now());
    loop {
        // From before the wait: what arrives until the time is over is read.
        let stopping = stops_since.map(|since: Instant| since.elapsed());
        let had_grace = last_accepted.elapsed() > FIRST_BYTE_GRACE_DEFAULT;
        if stopping.is_some() {
            timeout = Some(timeout.unwrap_or(STOP_PAUSE).min(STOP_PAUSE));
        }
        match heartbeat.sleep_while(|| poll.poll(&mut events, timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for token in events.iter().map(mio::event::Event::token) {
            if token == STOP {
                stops_since.get_or_insert_with(Instant::now);
            }
            let Some((stream, unwritten)) = connections.get_mut(&token) else { continue };
            let is_open = match echo(stream, unwritten) {
                // There may be more, which is an event again.
                Ok(()) => poll.registry().reregister(stream, token, BOTH).is_ok(),
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            if !is_open {
                connections.remove(&token);
            }
        }
        if let Some(stopping) = stopping.filter(|stopping| *stopping > FIRST_BYTE_GRACE_DEFAULT) {
            let is_written = connections.values().all(|(_, unwritten)| unwritten.is_empty());
            if connections.is_empty() || is_written && had_grace || stopping > DRAIN_TIMEOUT {
                return Ok(());
            }
            continue;
        }
        let outcome = acceptor.accept_batch(ACCEPTS_PER_BATCH_MAX, &mut |accepted| {
            let mut stream = TcpStream::from_std(accepted.stream.into());
            let token = Token(stream.as_raw_fd() as usize);
            if poll.registry().register(&mut stream, token, BOTH).is_ok() {
                connections.insert(token, (stream, Vec::new()));
            }
        });
        let outcome = outcome?;
        if outcome.accepted > 0 {
            last_accepted = Instant::now();
        }
        timeout = outcome.state.timeout();
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7701".to_owned());
    // Before the threads start, so that no signal ends the process on the spot.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let group = Group::at(&address)?.activated_or_open()?;
    let _monitor = StallMonitor::start([&group], STALL_THRESHOLD_DEFAULT, |event| eprintln!("{event:?}"))?;
    let (stop, stopping) = io::pipe()?;
    std::thread::scope(|threads| {
        for worker in group.worker_listeners() {
            threads.spawn(|| work(worker, &stop).inspect_err(|error| eprintln!("a worker ended: {error}")));
        }
        println!("listening on {}", group.local_address());
        signals.forever().next();
        group.pause();
        drop(stopping);
    });
    Ok(())
}
