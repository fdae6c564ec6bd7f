//! A TCP proxy on loopback between bbq and a destination, which a test makes slow, silent or unreachable.
//!
//! It never changes a byte. All connections obey the mode of the moment; `Cut`, `Reset` and `Refuse` also end those that are open.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use crate::support::random::Random;
use crate::support::{PATIENCE, listen_at};

/// What is read at a time.
const PIECE_BYTES: usize = 512;
/// The delay of a piece while the mode is `Slow`.
const DELAY: Duration = Duration::from_millis(10);
/// A way that is narrow catches up on so much that it was late: on a busy machine its pace is still that of the mode.
const LATE_MAX: Duration = Duration::from_secs(1);
/// A thread that waits for bytes or connections looks as often whether the mode has changed.
const LOOK: Duration = Duration::from_millis(10);
const LOOK_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// A connection is cut after fewer than two to the power of this many bytes of one direction. The power is drawn first, and then the
/// number. Responses are short: a sink that writes an object a second and is told so in 300 bytes would not be cut for a minute.
const CUT_POWERS_OF_REQUESTS: u64 = 14;
const CUT_POWERS_OF_RESPONSES: u64 = 10;

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Pass,
    /// Each piece of [`PIECE_BYTES`] takes a while.
    Slow,
    /// All connections share a way that passes so many bytes per second, of both directions.
    Narrow(u32),
    /// Connections are accepted, and nothing is forwarded.
    Hang,
    /// Each connection is reset after a random number of bytes.
    Cut,
    /// Each connection is reset when it was accepted.
    Reset,
    /// Nobody listens.
    Refuse,
}

struct State {
    mode: Mode,
    /// Connections of an earlier generation are reset.
    generation: u64,
    is_listening: bool,
    has_ended: bool,
    /// When the narrow way has passed all that was read.
    free_at: Instant,
    random: Random,
}

struct Shared {
    port: u16,
    to: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    cuts: AtomicU32,
    delays: AtomicU32,
}

/// See the module. Ends when dropped.
pub(super) struct FaultProxy {
    shared: Arc<Shared>,
}

impl FaultProxy {
    /// Listens on a port that nobody else uses, and forwards to another one.
    pub(super) fn start(port: u16, to: u16) -> FaultProxy {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, to));
        let state = State {
            mode: Mode::Pass,
            generation: 0,
            is_listening: false,
            has_ended: false,
            free_at: Instant::now(),
            random: Random::seeded(),
        };
        let shared = Shared {
            port,
            to,
            state: Mutex::new(state),
            changed: Condvar::new(),
            cuts: AtomicU32::new(0),
            delays: AtomicU32::new(0),
        };
        let shared = Arc::new(shared);
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || listen(&of_thread));
        shared.wait_listening(shared.lock(), true);
        FaultProxy { shared }
    }

    /// `HOST:PORT`.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.shared.port)
    }

    /// Returns when the mode is in force.
    pub(super) fn set(&self, mode: Mode) {
        let mut state = self.shared.lock();
        state.mode = mode;
        state.generation += u64::from(matches!(mode, Mode::Cut | Mode::Reset | Mode::Refuse));
        self.shared.changed.notify_all();
        self.shared.wait_listening(state, mode != Mode::Refuse);
    }

    /// How many connections were cut or reset.
    pub(super) fn cuts(&self) -> u32 {
        self.shared.cuts.load(Ordering::Relaxed)
    }

    /// How many pieces were delayed.
    pub(super) fn delays(&self) -> u32 {
        self.shared.delays.load(Ordering::Relaxed)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.has_ended = true;
        state.generation += 1;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_listening(&self, state: MutexGuard<'_, State>, wanted: bool) {
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| state.is_listening != wanted);
        let timeout = waited.unwrap_or_else(PoisonError::into_inner).1;
        assert!(!timeout.timed_out(), "the proxy cannot listen on port {}", self.port);
    }

    fn set_listening(&self, is_listening: bool) {
        self.lock().is_listening = is_listening;
        self.changed.notify_all();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Response,
}

/// A connection through the proxy.
struct Connection {
    generation: u64,
    /// The direction in which it is cut, if it is, and how many bytes pass before.
    cut: Option<(Direction, AtomicUsize)>,
    /// One direction has failed, so the other one ends as well.
    has_failed: AtomicBool,
}

fn listen(shared: &Arc<Shared>) {
    let mut listener: Option<TcpListener> = None;
    loop {
        let state = shared.lock();
        if state.has_ended {
            return;
        }
        let refuses = state.mode == Mode::Refuse;
        drop(state);
        match (refuses, &listener) {
            (true, Some(_)) => {
                listener = None;
                shared.set_listening(false);
            }
            (true, None) => {
                let wait = shared
                    .changed
                    .wait_while(shared.lock(), |state| state.mode == Mode::Refuse && !state.has_ended);
                drop(wait.unwrap_or_else(PoisonError::into_inner));
            }
            (false, None) => {
                let bound = listen_at(shared.port);
                bound.set_nonblocking(true).unwrap_or_else(|error| panic!("a socket: {error}"));
                listener = Some(bound);
                shared.set_listening(true);
            }
            (false, Some(listener)) => accept(shared, listener),
        }
    }
}

/// Takes a connection, if one comes within a moment.
fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut polled = [PollFd::new(listener, PollFlags::IN)];
    if !matches!(poll(&mut polled, Some(&LOOK_POLL)), Ok(1)) {
        return;
    }
    // A client that is gone already comes again.
    let Ok((client, _)) = listener.accept() else { return };
    let shared = Arc::clone(shared);
    // A connection that breaks is the client's to make again.
    std::thread::spawn(move || drop(serve(&shared, &client)));
}

fn serve(shared: &Arc<Shared>, client: &TcpStream) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let mut state = shared.lock();
    let generation = state.generation;
    let cut = (state.mode == Mode::Cut).then(|| cut(&mut state.random));
    if state.mode == Mode::Reset {
        shared.cuts.fetch_add(1, Ordering::Relaxed);
        return set_socket_linger(client, Some(Duration::ZERO)).map_err(io::Error::from);
    }
    // Who hangs has not even asked the destination.
    let state = shared.changed.wait_while(state, |state| state.mode == Mode::Hang && !state.has_ended);
    drop(state.unwrap_or_else(PoisonError::into_inner));
    let server = TcpStream::connect(shared.to)?;
    for stream in [client, &server] {
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_nodelay(true)?;
    }
    let connection = Connection { generation, cut, has_failed: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        scope.spawn(|| connection.end(&forward(shared, &connection, Direction::Response, &server, client)));
        connection.end(&forward(shared, &connection, Direction::Request, client, &server));
    });
    if connection.has_failed.into_inner() {
        for stream in [client, &server] {
            set_socket_linger(stream, Some(Duration::ZERO))?;
        }
    }
    Ok(())
}

fn forward(
    shared: &Shared,
    connection: &Connection,
    direction: Direction,
    mut from: &TcpStream,
    mut to: &TcpStream,
) -> io::Result<()> {
    let mut buffer = [0; PIECE_BYTES];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => {
                to.shutdown(Shutdown::Write)?;
                return Ok(());
            }
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(error) => return Err(error),
        };
        shared.hold(connection, read)?;
        let (passes, is_cut) = connection.take(direction, read);
        to.write_all(&buffer[..passes])?;
        if is_cut {
            shared.cuts.fetch_add(1, Ordering::Relaxed);
            return Err(ErrorKind::ConnectionReset.into());
        }
    }
}

impl Shared {
    /// Returns when a piece may pass, or an error if the connection is to end.
    fn hold(&self, connection: &Connection, bytes: usize) -> io::Result<()> {
        let is_over = |state: &State| {
            state.generation != connection.generation || connection.has_failed.load(Ordering::Relaxed)
        };
        let mut state = self.lock();
        if bytes > 0 {
            let holds = |state: &mut State| state.mode == Mode::Hang && !is_over(state);
            state = self.changed.wait_while(state, holds).unwrap_or_else(PoisonError::into_inner);
            if state.mode == Mode::Slow {
                self.delays.fetch_add(1, Ordering::Relaxed);
                let slow = |state: &mut State| state.mode == Mode::Slow && !is_over(state);
                let waited = self.changed.wait_timeout_while(state, DELAY, slow);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if let mode @ Mode::Narrow(bytes_per_second) = state.mode {
                self.delays.fetch_add(1, Ordering::Relaxed);
                let (now, bytes) = (Instant::now(), u32::try_from(bytes).unwrap_or(u32::MAX));
                let begin = now.checked_sub(LATE_MAX).map_or(now, |earliest| state.free_at.max(earliest));
                state.free_at = begin + Duration::from_secs(1) * bytes / bytes_per_second;
                let passes_in = state.free_at.saturating_duration_since(now);
                let narrow = |state: &mut State| state.mode == mode && !is_over(state);
                let waited = self.changed.wait_timeout_while(state, passes_in, narrow);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        if is_over(&state) {
            return Err(ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl Connection {
    /// A direction has ended.
    fn end(&self, outcome: &io::Result<()>) {
        self.has_failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
    }

    /// How many of these bytes pass, and whether the connection ends with them.
    fn take(&self, direction: Direction, bytes: usize) -> (usize, bool) {
        let Some((_, left)) = self.cut.as_ref().filter(|(cut, _)| *cut == direction) else {
            return (bytes, false);
        };
        // Only one thread forwards a direction.
        let before = left.load(Ordering::Relaxed);
        left.store(before.saturating_sub(bytes), Ordering::Relaxed);
        (before.min(bytes), bytes > 0 && before <= bytes)
    }
}

/// Where a connection is cut.
fn cut(random: &mut Random) -> (Direction, AtomicUsize) {
    let (direction, powers) = match random.below(2) {
        0 => (Direction::Request, CUT_POWERS_OF_REQUESTS),
        _ => (Direction::Response, CUT_POWERS_OF_RESPONSES),
    };
    let power = random.below(powers);
    (direction, AtomicUsize::new(random.below(1 << power) as usize))
}
