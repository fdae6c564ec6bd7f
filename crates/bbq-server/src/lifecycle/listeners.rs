//! The server's listening sockets. They outlive everything else: a restart in place, a reload and an upgrade pass them on.
//!
//! Invariant: sockets that were offered are adopted or refused, never bound again.

use std::io;
use std::net::{SocketAddr, TcpListener as AdminListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bbq_config::Config;
use bbq_intake::{ListenSpec, ServedTokens, UnixFile};
use bbq_listen::{Address, GroupOptions, Holder, Steering, SteeringKey};
use bbq_observe::Listener;
use bbq_tls::{HandshakeCounts, ServedTls, Tls};

use crate::error::StartError;

/// Open sockets of one address, opened by systemd or a predecessor.
pub(crate) struct OfferedGroup {
    /// As configured by the opener, or as bound.
    pub(crate) address: Address,
    /// By index.
    pub(crate) sockets: Vec<OwnedFd>,
    pub(crate) owns_file: bool,
    pub(crate) kernel_seen: u64,
    /// With which its senders were spread; `None` if the opener had no key.
    pub(crate) steering_key: Option<SteeringKey>,
}

/// Everything that listens.
pub(crate) struct Sockets {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) admin: Option<AdminListener>,
    pub(crate) probe: Option<AdminListener>,
}

impl Sockets {
    /// Adopts the offered sockets that the configuration names, and opens the rest. Offered sockets without a listener stay in
    /// `offered`.
    pub(crate) fn open(config: &Config, offered: &mut Vec<OfferedGroup>) -> Result<Sockets, StartError> {
        let listeners = config.listen.iter().map(|spec| self::open(config, spec, offered));
        let listeners = listeners.collect::<Result<_, _>>()?;
        let admin = open_admin(config.admin, offered)
            .map_err(|(address, holder, source)| StartError::Admin { address, holder, source })?;
        let probe = open_admin(config.probe, offered)
            .map_err(|(address, holder, source)| StartError::Probe { address, holder, source })?;
        Ok(Sockets { listeners, admin, probe })
    }

    /// Copies of every socket, for a successor.
    pub(crate) fn offer(&self, config: &Config) -> io::Result<Vec<OfferedGroup>> {
        let mut offered: Vec<OfferedGroup> = self.listeners.iter().map(offer).collect::<io::Result<_>>()?;
        for (listener, address) in [(&self.admin, config.admin), (&self.probe, config.probe)] {
            let (Some(listener), Some(address)) = (listener, address) else { continue };
            offered.push(OfferedGroup {
                address: Address::Tcp(address),
                sockets: vec![listener.as_fd().try_clone_to_owned()?],
                owns_file: false,
                kernel_seen: 0,
                steering_key: None,
            });
        }
        Ok(offered)
    }
}

/// Opens the sockets of a listener, or adopts them from `offered`.
pub(crate) fn open(
    config: &Config,
    spec: &ListenSpec,
    offered: &mut Vec<OfferedGroup>,
) -> Result<Listener, StartError> {
    let mut options = GroupOptions::new(spec.address.clone(), config.workers)
        .distribution(config.distribution_of(spec))
        .steering(spec.steering.clone())
        .steering_pins(&config.steering_pins)
        .backlog(spec.backlog)
        .keepalive(spec.silence.keepalive)
        .user_timeout(spec.silence.user_timeout);
    options.receive_buffer_bytes = spec.receive_buffer_bytes;
    options.defer_accept = spec.defer_accept;
    if let Some(UnixFile { mode, owner }) = spec.unix_file {
        options = options.unix_mode(mode).unix_owner(owner);
    }
    let found = take(offered, &spec.address);
    options.steering_key = found.as_ref().and_then(|group| group.steering_key.clone());
    let kernel_seen = found.as_ref().map_or(0, |group| group.kernel_seen);
    // systemd has its own keys for the files that it makes.
    let file_is_bbqs = found.as_ref().is_some_and(|group| group.owns_file);
    let group = match found {
        // Adopts all sockets. The start then adds or removes sockets until each worker has one; only then does each weight
        // have a socket.
        Some(found) if found.sockets.len() > 1 && options.distribution.is_per_worker() => {
            let workers = found.sockets.len();
            let steering = if workers == config.workers { spec.steering.clone() } else { Steering::Hash };
            options.workers(workers).steering(steering).adopt(found.sockets)
        }
        Some(found) => options.adopt(found.sockets),
        None => options.open(),
    };
    let failed = |source| StartError::Listen { spec: spec.text.clone(), source };
    let group = group.map_err(failed)?;
    if let Some(UnixFile { mode, owner }) = spec.unix_file
        && file_is_bbqs
    {
        group.set_file_options(Some(mode), owner).map_err(failed)?;
    }
    let tls = spec.tls.as_ref().map(|tls| served(tls, Arc::default()));
    let tokens = spec.tokens.as_ref().map(ServedTokens::of_file);
    Ok(Listener::new(spec.clone(), group, tls, tokens, kernel_seen))
}

/// A copy with the same sockets and another configuration.
pub(crate) fn with_spec(listener: &Listener, spec: ListenSpec) -> Listener {
    let tls = spec.tls.as_ref().map(|tls| match &listener.tls {
        Some(before) if before.is_of(&tls.files, tls.application) => Arc::clone(before),
        before => served(tls, before.as_ref().map(|before| Arc::clone(&before.counts)).unwrap_or_default()),
    });
    let tokens = spec.tokens.as_ref().map(|file| match &listener.tokens {
        Some(before) if before.is_of(&file.path) => Arc::clone(before),
        _ => ServedTokens::of_file(file),
    });
    listener.with_spec(spec, tls, tokens)
}

fn offer(listener: &Listener) -> io::Result<OfferedGroup> {
    let sockets = listener.group.sockets().into_iter().map(|socket| socket.as_fd().try_clone_to_owned());
    Ok(OfferedGroup {
        address: listener.spec().address.clone(),
        sockets: sockets.collect::<io::Result<_>>()?,
        owns_file: listener.group.owns_file(),
        kernel_seen: listener.kernel_seen,
        steering_key: Some(listener.group.steering_key().clone()),
    })
}

fn served(tls: &Tls, counts: Arc<HandshakeCounts>) -> Arc<ServedTls> {
    Arc::new(ServedTls::new(tls.files.clone(), tls.application, tls.certificates.clone(), counts))
}

/// Takes the first group of an address. Two listeners on port 0 have the same address; their order is the same everywhere.
fn take(offered: &mut Vec<OfferedGroup>, address: &Address) -> Option<OfferedGroup> {
    let place = offered.iter().position(|group| group.address == *address)?;
    Some(offered.remove(place))
}

/// Opens a socket of the admin's, or adopts it. An error has the address, and the process that has it.
fn open_admin(
    address: Option<SocketAddr>,
    offered: &mut Vec<OfferedGroup>,
) -> Result<Option<AdminListener>, (SocketAddr, Option<Holder>, io::Error)> {
    let Some(address) = address else { return Ok(None) };
    let handed = take(offered, &Address::Tcp(address)).and_then(|mut group| group.sockets.pop());
    let listener = match handed {
        Some(socket) => Ok(AdminListener::from(socket)),
        None => AdminListener::bind(address),
    };
    let listener = listener.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map(Some).map_err(|source| {
        let in_use = source.kind() == io::ErrorKind::AddrInUse;
        let holder = in_use.then(|| Holder::of(&Address::Tcp(address))).flatten();
        (address, holder, source)
    })
}
