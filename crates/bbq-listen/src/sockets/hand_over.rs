//! Takes the listening sockets of the process that serves now, and passes them on to a successor, over a unix socket.
//!
//! The process that serves listens at a path. Its successor connects there, gets the sockets, and opens its groups with them. Both have
//! the same queues then, and the old process goes on serving. When the successor serves, it says so, and the old process stops as at
//! SIGTERM. A successor that ends before that changes nothing. `tokio/successors.rs` is the side of the process that serves.
//!
//! Packets of `SOCK_SEQPACKET`; the first byte is the kind, and descriptors travel with them (`SCM_RIGHTS`):
//!
//! ```text
//!   successor   'H' version                    asks for the sockets
//!   old         'G' owns key[16] address       a group, with its first descriptors
//!   old         'D'                            more descriptors of it
//!   old         'E'                            these were all
//!   old         'R' text                       refuses, and says why
//!   successor   'S'                            serves
//! ```
//!
//! Invariant: both sides are of the same user, or of root.
//! Invariant: until the successor serves, no file is removed or replaced.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, recvmsg,
    sendmsg, socket_with,
};

use crate::{Address, Group, GroupOptions, ListenError, PeerProcess, SteeringKey};

const VERSION: u8 = 1;
/// Descriptors in one packet: the kernel takes 253 (`SCM_MAX_FD`).
const DESCRIPTORS_PER_PACKET: usize = 128;
/// An address has at most 107 bytes of a path and a few more.
const PACKET_BYTES_MAX: usize = 512;
const KEY_BYTES: usize = 16;
/// Successors that wait while one is served.
const BACKLOG: i32 = 4;
/// How often a successor asks if the process that it asks ends: each time another one has replaced it, of those that were started at the
/// same time.
const TRIES_MAX: usize = 16;
const _: () = assert!(TRIES_MAX > BACKLOG as usize);
/// A process that serves answers at once. Without a time-out, one that is stopped would hang each successor.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a server pass its listening sockets on to its successor: start the new program beside the old one, and no connection is lost.
///
/// The new program takes the sockets of the one that serves. When its workers serve, the old program stops, as at SIGTERM
/// ([`Group::run_tokio`], "Stop"), and its run returns. If the new program fails before that, the old one goes on. So the first start and
/// each restart are the same command, and a restart also changes the number of workers.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::{Router, routing::get};
/// use bbq_listen::{Group, HandOver, TokioRunner};
///
/// let app = Router::new().route("/", get(async || "hello\n"));
/// let mut hand_over = HandOver::at("/run/server.hand-over")?;
/// let group = hand_over.open(&Group::at("0.0.0.0:8080")?)?;
/// # #[cfg(feature = "axum")]
/// TokioRunner::new()
///     .hand_over(hand_over)
///     .serve(&group, |listener| listener.serve_axum(app.clone()))
///     .run()?;
/// # Ok(())
/// # }
/// ```
///
/// The path is that of a unix socket, which the server creates with permissions for its user alone. Only processes of the same user, or of
/// root, get the sockets. Connections that are open stay with the old program until they end, or its
/// [`drain_timeout`](crate::TokioRunner::drain_timeout) is over.
#[derive(Debug)]
pub struct HandOver {
    pub(crate) path: PathBuf,
    predecessor: Option<OwnedFd>,
    passed: Vec<Passed>,
    /// Where this process removes the file from now on.
    pub(crate) owned: Vec<Address>,
}

/// A group of the process before.
#[derive(Debug)]
struct Passed {
    address: Address,
    key: SteeringKey,
    owns_file: bool,
    sockets: Vec<OwnedFd>,
}

impl HandOver {
    /// Takes the sockets of the process that serves at `path`, if there is one.
    ///
    /// # Errors
    /// If that process is of another user, does not answer, or refuses: it does so for some seconds after its groups have shrunk.
    pub fn at(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let mut asked = ask(&path);
        for _ in 1..TRIES_MAX {
            // Another successor has replaced it, and listens at the path already, or nobody does.
            if !asked.as_ref().is_err_and(has_ended) {
                break;
            }
            asked = ask(&path);
        }
        let (predecessor, passed) = match asked {
            Ok(asked) => asked.unzip(),
            Err(error) if has_ended(&error) => {
                let text = "the process that serves has ended meanwhile; try again";
                return Err(io::Error::new(error.kind(), text));
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path, predecessor, passed: passed.unwrap_or_default(), owned: Vec::new() })
    }

    /// Whether there is a process that serves, and stops when this one serves.
    pub fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Opens a group: with the sockets of the process before, if it has some at this address, and else with new ones. Of port 0 it takes
    /// the first group with the same transport and host.
    ///
    /// The number of workers may be another one than before, also with a socket for each worker. One socket stays one, which all
    /// workers share: [`Group::adopt`].
    ///
    /// # Errors
    /// As [`Group::adopt`], [`Group::resize`] and [`Group::open`].
    pub fn open(&mut self, options: &GroupOptions) -> Result<Group, ListenError> {
        let Some(place) = self.passed.iter().position(|passed| fits(&options.address, &passed.address))
        else {
            return options.open();
        };
        let Passed { address, key, owns_file, sockets } = self.passed.remove(place);
        let count = sockets.len();
        let is_per_worker = count > 1 && options.distribution.is_per_worker();
        let before = if is_per_worker { count } else { options.workers };
        let group = options.clone().steering_key(Some(key)).workers(before).adopt(sockets)?;
        if before != options.workers {
            group.resize(options.workers)?;
        }
        if owns_file {
            self.owned.push(address);
        }
        Ok(group)
    }

    /// Tells the process before that this one serves, so that it stops. It has ended if it does not hear it.
    pub(crate) fn serves(&mut self) {
        // Groups that were not opened are closed: what waits there is served by the process before, until it ends.
        self.passed.clear();
        if let Some(predecessor) = self.predecessor.take() {
            let _ended = send(&predecessor, b"S", &[]);
        }
    }
}

/// Connects to the process that serves at `path`, and takes its sockets. `None` if there is no such process.
fn ask(path: &Path) -> io::Result<Option<(OwnedFd, Vec<Passed>)>> {
    let socket = new_socket(SocketFlags::CLOEXEC)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => {}
        // Nobody serves, or whoever did has ended.
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    check_user(&socket)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
    send(&socket, &[b'H', VERSION], &[])?;
    let passed = receive_groups(&socket).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => {
            let text = "the process that serves does not answer; check whether it is stopped or blocked";
            io::Error::new(ErrorKind::TimedOut, text)
        }
        _ => error,
    })?;
    Ok(Some((socket, passed)))
}

/// Whether the process at the other end has ended before it had passed on everything.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof)
}

/// A socket at `path` to which successors connect. It takes the place of that of the process before.
pub(crate) fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    bind(&socket, &SocketAddrUnix::new(&temporary)?)?;
    let is_there = rustix::fs::chmod(&temporary, Mode::RUSR | Mode::WUSR)
        .map_err(io::Error::from)
        .and_then(|()| Ok(listen(&socket, BACKLOG)?))
        // Never is there no socket at the path.
        .and_then(|()| std::fs::rename(&temporary, path));
    is_there.inspect_err(|_| drop(std::fs::remove_file(&temporary)))?;
    Ok(socket)
}

/// Whether a successor asks for the sockets.
pub(crate) fn asks(packet: &[u8]) -> bool {
    packet == [b'H', VERSION]
}

/// Whether a successor serves.
pub(crate) fn says_that_it_serves(packet: &[u8]) -> bool {
    packet == b"S"
}

/// Sends the sockets of `groups`, or why they cannot be passed on.
pub(crate) fn pass_on(to: BorrowedFd<'_>, groups: &[&Group]) -> io::Result<()> {
    if groups.iter().any(|group| group.close_removed()) {
        return send(to, b"Rits groups have just shrunk; try again in some seconds", &[]);
    }
    for group in groups {
        let sockets = group.sockets();
        let descriptors: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.as_fd()).collect();
        let mut packet = vec![b'G', u8::from(group.owns_file())];
        packet.extend(group.steering_key().to_bytes());
        packet.extend(group.local_address().to_string().into_bytes());
        for descriptors in descriptors.chunks(DESCRIPTORS_PER_PACKET) {
            send(to, &packet, descriptors)?;
            packet = b"D".to_vec();
        }
    }
    send(to, b"E", &[])
}

/// An error if the other end is of another user, and not root.
pub(crate) fn check_user(socket: impl AsFd) -> io::Result<()> {
    let PeerProcess { pid, uid, .. } = PeerProcess::of(socket)?;
    if uid == 0 || uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let text = format!("process {pid} at the other end of the hand-over is of user {uid}");
    Err(io::Error::new(ErrorKind::PermissionDenied, text))
}

/// Receives a packet and its descriptors; no byte means that the other side has ended.
pub(crate) fn receive(from: impl AsFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_PACKET))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        recvmsg(&from, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    bytes.truncate(received.bytes);
    Ok((bytes, descriptors))
}

fn send(to: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_PACKET))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    retry_on_intr(|| sendmsg(&to, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

fn new_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn receive_groups(from: &OwnedFd) -> io::Result<Vec<Passed>> {
    let mut groups: Vec<Passed> = Vec::new();
    loop {
        let (packet, descriptors) = receive(from)?;
        match (packet.split_first(), groups.last_mut()) {
            (Some((b'E', [])), _) => return Ok(groups),
            (Some((b'D', [])), Some(group)) => group.sockets.extend(descriptors),
            (Some((b'G', rest)), _) => groups.push(passed(rest, descriptors).ok_or_else(unknown)?),
            (Some((b'R', text)), _) => {
                let text = String::from_utf8_lossy(text);
                return Err(io::Error::other(format!("the process that serves passes no socket on: {text}")));
            }
            (None, _) => return Err(ErrorKind::UnexpectedEof.into()),
            _ => return Err(unknown()),
        }
    }
}

/// A group of a packet behind its kind.
fn passed(packet: &[u8], sockets: Vec<OwnedFd>) -> Option<Passed> {
    let (owns_file, rest) = packet.split_first()?;
    let (key, address) = rest.split_first_chunk::<KEY_BYTES>()?;
    let address = str::from_utf8(address).ok()?.parse().ok()?;
    Some(Passed { address, key: SteeringKey::from_bytes(*key), owns_file: *owns_file == 1, sockets })
}

fn unknown() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the process that serves speaks another version of the hand-over")
}

/// Whether a group at `passed` is what `wanted` asks for.
fn fits(wanted: &Address, passed: &Address) -> bool {
    let is_any_port = match (wanted.socket_address(), passed.socket_address()) {
        (Some(wanted), Some(passed)) => wanted.port() == 0 && wanted.ip() == passed.ip(),
        _ => false,
    };
    wanted == passed || is_any_port && wanted.transport() == passed.transport()
}
