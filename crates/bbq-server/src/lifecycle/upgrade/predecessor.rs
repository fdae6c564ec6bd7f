//! The old program, as the new one sees it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bbq_intake::{PausedConnection, Stream, Unfinished};
use bbq_listen::SteeringKey;
use bbq_observe::Listener;
use bbq_spool::{DirectoryLock, SpoolError};
use bbq_wire::Peer;
use bbq_wire::framing::Suspended;
use data_encoding::BASE64;
use tracing::warn;

use super::channel::Channel;
use super::message::{Connection, Handed, Offer, Prepared, Ready};
use super::successor::FROM;
use crate::lifecycle::listeners::OfferedGroup;

/// How long to wait for the predecessor to end. A predecessor that ends later does no harm.
const GONE_PATIENCE: Duration = Duration::from_secs(5);

/// The process that hands over. If it ends before this process is ready, the start of this process fails.
pub(crate) struct Predecessor {
    channel: Channel,
    /// Where the log goes after the predecessor has ended. Until then the predecessor reads and relays it.
    standard_error: Option<OwnedFd>,
    /// Each offered group, and whether this process removes the file of its unix socket at the end.
    offered: Vec<(bbq_listen::Address, bool)>,
}

/// What the predecessor has handed over, beside the sockets.
pub(crate) struct TakenOver {
    /// The connections to continue.
    pub(crate) paused: Vec<PausedConnection>,
    /// The lock of its data directory; `None` from a version that lets go of it.
    lock: Option<OwnedFd>,
}

impl TakenOver {
    /// The lock of this process's data directory.
    pub(crate) fn lock(&mut self, data: &Path) -> Result<DirectoryLock, SpoolError> {
        let Some(sent) = self.lock.take() else { return DirectoryLock::take(data) };
        if let Some(lock) = DirectoryLock::adopt(sent, data)? {
            return Ok(lock);
        }
        warn!(
            data = %data.display(),
            "the data directory is not the previous one, or its lock file was removed: undelivered messages stay in the \
             previous directory until a server is started with it"
        );
        DirectoryLock::take(data)
    }
}

impl Predecessor {
    /// Returns the process that started this one as its successor, if there is one, and the sockets that it offers.
    pub(crate) fn of_this_process() -> io::Result<Option<(Predecessor, Vec<OfferedGroup>)>> {
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
        if std::env::var(FROM).ok() != parent || parent.is_none() {
            return Ok(None);
        }
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let mut channel = Channel::new(stream);
        let (offer, descriptors): (Offer, _) = channel.receive()?;
        let mut descriptors = descriptors.into_iter();
        let standard_error = descriptors.next();
        let mut groups = Vec::new();
        for group in offer.groups {
            let sockets = descriptors.by_ref().take(group.sockets).collect();
            let address = group.address.parse().map_err(io::Error::other)?;
            let steering_key = group.steering_key.and_then(|key| BASE64.decode(key.as_bytes()).ok());
            groups.push(OfferedGroup {
                address,
                sockets,
                owns_file: group.owns_file,
                kernel_seen: 0,
                steering_key: steering_key
                    .and_then(|bytes| bytes.try_into().ok())
                    .map(SteeringKey::from_bytes),
            });
        }
        let offered = groups.iter().map(|group| (group.address.clone(), group.owns_file)).collect();
        Ok(Some((Predecessor { channel, standard_error, offered }, groups)))
    }

    /// Tells the predecessor which listeners are kept, and waits until the data directory is free.
    pub(crate) fn take_over(&mut self, listeners: &mut [Listener]) -> io::Result<TakenOver> {
        let kept = listeners.iter().map(|listener| listener.spec().head().to_owned()).collect();
        self.channel.send(&Prepared { kept, adopts_lock: true }, &[])?;
        let mut paused = Vec::new();
        loop {
            match self.channel.receive()? {
                (Handed::Connections(connections), streams) => {
                    let found = connections.into_iter().zip(streams);
                    paused.extend(
                        found.filter_map(|(connection, stream)| resumed(&connection, stream, listeners)),
                    );
                }
                (Handed::Go { kernel_seen }, lock) => {
                    self.resume_kernel_drops(listeners, &kernel_seen);
                    return Ok(TakenOver { paused, lock: lock.into_iter().next() });
                }
            }
        }
    }

    fn resume_kernel_drops(&self, listeners: &mut [Listener], seen: &[u64]) {
        let mut offered: Vec<_> = self.offered.iter().zip(seen).collect();
        for listener in listeners {
            let place = offered.iter().position(|((address, _), _)| *address == listener.spec().address);
            if let Some(place) = place {
                listener.kernel_seen = *offered.remove(place).1;
            }
        }
    }

    /// Tells the predecessor that this process serves: it ends. From here on this process owns the files of unix sockets and the log.
    ///
    /// Before that, nothing is read from any connection. If this process is killed, the predecessor goes on with the connections,
    /// and what this one had read would be missing in their middle.
    pub(crate) fn release(&mut self, listeners: &[Listener]) -> io::Result<()> {
        for listener in listeners {
            if self.offered.iter().any(|(address, owned)| *owned && *address == listener.spec().address) {
                listener.group.set_owns_file(true);
            }
        }
        if let Some(standard_error) = &self.standard_error {
            rustix::stdio::dup2_stderr(standard_error)?;
        }
        self.channel.send(&Ready {}, &[])
    }

    /// Waits until the predecessor has ended, which was released.
    pub(crate) fn wait_ended(mut self) {
        if self.channel.set_patience(Some(GONE_PATIENCE)).is_ok() {
            self.channel.wait_closed();
        }
    }
}

fn resumed(connection: &Connection, stream: OwnedFd, listeners: &[Listener]) -> Option<PausedConnection> {
    let place = listeners.iter().position(|listener| listener.spec().head() == connection.source);
    let resumed = place.and_then(|listener_index| {
        let spec = listeners[listener_index].spec();
        let peer = BASE64.decode(connection.peer.as_bytes()).ok()?;
        let suspended = Suspended {
            held: BASE64.decode(connection.held.as_bytes()).ok()?,
            lost: connection.lost,
            last: connection.last,
            mode: connection.mode,
            digits: connection.digits,
            number: connection.number,
            is_given_up: connection.is_given_up,
        };
        let unfinished = Unfinished::resume(spec.protocol, suspended)?;
        let peer = Peer::decode(&mut peer.as_slice())?;
        let stream = Stream::plain(stream);
        let worker = connection.worker;
        Some(PausedConnection { worker, listener_index, stream, unfinished, peer, address: None })
    });
    if resumed.is_none() {
        warn!(listener = connection.source, "cannot continue a connection that was handed over; closed");
    }
    resumed
}
