//! The server's listening sockets. They outlive everything else: a restart in place, a reload and an upgrade pass them on.
//!
//! Invariant: sockets that were offered are adopted or refused, never bound again.

use std::io;
use std::net::TcpListener as AdminListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use bbq_listen::{Address, Group, GroupOptions, Holder, Steering};

use crate::config::{Config, ListenSpec, Tls};
use crate::error::StartError;
use crate::observe::evenness::EvennessWatch;
use crate::observe::foreign::ForeignWatch;
use crate::tls::{HandshakeCounts, ServedTls};

/// A listener, as status and control see it.
#[derive(Clone)]
pub(crate) struct Listener {
    /// Some changes take effect without a pause; all copies see them.
    spec: Arc<Mutex<Arc<ListenSpec>>>,
    pub(crate) group: Arc<Group>,
    pub(crate) foreign: Arc<ForeignWatch>,
    pub(crate) evenness: Arc<EvennessWatch>,
    /// `None` when it is plain.
    pub(crate) tls: Option<Arc<ServedTls>>,
    /// What the kernel had dropped on the sockets when a ledger last counted.
    pub(crate) kernel_seen: u64,
}

/// Open sockets of one address, opened by systemd or a predecessor.
pub(crate) struct OfferedGroup {
    /// As configured by the opener, or as bound.
    pub(crate) address: Address,
    /// By index.
    pub(crate) sockets: Vec<OwnedFd>,
    pub(crate) owns_file: bool,
    pub(crate) kernel_seen: u64,
}

/// Everything that listens.
pub(crate) struct Sockets {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) admin: Option<AdminListener>,
}

impl Sockets {
    /// Adopts the offered sockets that the configuration names, and opens the rest. Offered sockets without a listener stay in
    /// `offered`.
    pub(crate) fn open(config: &Config, offered: &mut Vec<OfferedGroup>) -> Result<Sockets, StartError> {
        let listeners = config.listen.iter().map(|spec| Listener::open(config, spec, offered));
        let listeners = listeners.collect::<Result<_, _>>()?;
        Ok(Sockets { listeners, admin: open_admin(config, offered)? })
    }

    /// Copies of every socket, for a successor.
    pub(crate) fn offer(&self, config: &Config) -> io::Result<Vec<OfferedGroup>> {
        let mut offered: Vec<OfferedGroup> =
            self.listeners.iter().map(Listener::offer).collect::<io::Result<_>>()?;
        if let (Some(admin), Some(address)) = (&self.admin, config.admin) {
            offered.push(OfferedGroup {
                address: Address::Tcp(address),
                sockets: vec![admin.as_fd().try_clone_to_owned()?],
                owns_file: false,
                kernel_seen: 0,
            });
        }
        Ok(offered)
    }
}

impl Listener {
    pub(crate) fn open(
        config: &Config,
        spec: &ListenSpec,
        offered: &mut Vec<OfferedGroup>,
    ) -> Result<Listener, StartError> {
        let options = GroupOptions {
            distribution: config.distribution_of(spec),
            steering: spec.steering.clone(),
            backlog: spec.backlog,
            receive_buffer_bytes: spec.receive_buffer_bytes,
            ..GroupOptions::new(spec.address.clone(), config.workers)
        };
        let found = take(offered, &spec.address);
        let kernel_seen = found.as_ref().map_or(0, |group| group.kernel_seen);
        let group = match found {
            // Adopts all sockets. The start then adds or removes sockets until each worker has one; only then does each weight
            // have a socket.
            Some(found) if found.sockets.len() > 1 && options.distribution.is_per_worker() => {
                let workers = found.sockets.len();
                let steering = if workers == config.workers { options.steering } else { Steering::Hash };
                Group::adopt(&GroupOptions { workers, steering, ..options }, found.sockets)
            }
            Some(found) => Group::adopt(&options, found.sockets),
            None => Group::open(&options),
        };
        let group = group.map_err(|source| StartError::Listen { spec: spec.text.clone(), source })?;
        Ok(Listener {
            spec: Arc::new(Mutex::new(Arc::new(spec.clone()))),
            foreign: Arc::default(),
            evenness: Arc::new(EvennessWatch::new(group.taken())),
            tls: spec.tls.as_ref().map(|tls| served(tls, Arc::default())),
            group: Arc::new(group),
            kernel_seen,
        })
    }

    /// As it is configured.
    pub(crate) fn spec(&self) -> Arc<ListenSpec> {
        Arc::clone(&self.spec.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes what can change while the listener is served. Workers keep what they were given.
    pub(crate) fn set_spec(&self, spec: ListenSpec) {
        *self.spec.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(spec);
    }

    /// A copy with the same sockets and another configuration.
    pub(crate) fn with_spec(&self, spec: ListenSpec) -> Listener {
        let tls = spec.tls.as_ref().map(|tls| match &self.tls {
            Some(before) if before.is_of(&tls.files, tls.application) => Arc::clone(before),
            before => {
                served(tls, before.as_ref().map(|before| Arc::clone(&before.counts)).unwrap_or_default())
            }
        });
        Listener { spec: Arc::new(Mutex::new(Arc::new(spec))), tls, ..self.clone() }
    }

    fn offer(&self) -> io::Result<OfferedGroup> {
        let sockets = self.group.sockets().into_iter().map(|socket| socket.as_fd().try_clone_to_owned());
        Ok(OfferedGroup {
            address: self.spec().address.clone(),
            sockets: sockets.collect::<io::Result<_>>()?,
            owns_file: self.group.owns_file(),
            kernel_seen: self.kernel_seen,
        })
    }
}

fn served(tls: &Tls, counts: Arc<HandshakeCounts>) -> Arc<ServedTls> {
    Arc::new(ServedTls::new(tls.files.clone(), tls.application, tls.certificates.clone(), counts))
}

/// Takes the first group of an address. Two listeners on port 0 have the same address; their order is the same everywhere.
fn take(offered: &mut Vec<OfferedGroup>, address: &Address) -> Option<OfferedGroup> {
    let place = offered.iter().position(|group| group.address == *address)?;
    Some(offered.remove(place))
}

fn open_admin(config: &Config, offered: &mut Vec<OfferedGroup>) -> Result<Option<AdminListener>, StartError> {
    let Some(address) = config.admin else { return Ok(None) };
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
        StartError::Admin { address, holder, source }
    })
}
