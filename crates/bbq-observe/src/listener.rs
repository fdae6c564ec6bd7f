//! A listener, as status and control see it.

use std::sync::{Arc, Mutex, PoisonError};

use bbq_intake::{ListenSpec, PeerLog, ServedTokens};
use bbq_listen::{Distribution, Group};
use bbq_tls::ServedTls;

use crate::evenness::EvennessWatch;
use crate::foreign::ForeignWatch;

/// A listener, as status and control see it.
#[derive(Clone)]
pub struct Listener {
    /// Some changes take effect without a pause; all copies see them.
    spec: Arc<Mutex<Arc<ListenSpec>>>,
    /// Its sockets.
    pub group: Arc<Group>,
    pub(crate) foreign: Arc<ForeignWatch>,
    pub(crate) evenness: Arc<EvennessWatch>,
    /// `None` when it is plain.
    pub tls: Option<Arc<ServedTls>>,
    /// `None` when it asks for none.
    pub tokens: Option<Arc<ServedTokens>>,
    /// Reports who was refused.
    pub refusals: Arc<PeerLog>,
    /// What the kernel had dropped on the sockets when a ledger last counted.
    pub kernel_seen: u64,
}

impl Listener {
    /// A listener on these sockets.
    #[must_use]
    pub fn new(
        spec: ListenSpec,
        group: Group,
        tls: Option<Arc<ServedTls>>,
        tokens: Option<Arc<ServedTokens>>,
        kernel_seen: u64,
    ) -> Listener {
        Listener {
            spec: Arc::new(Mutex::new(Arc::new(spec))),
            foreign: Arc::default(),
            evenness: Arc::new(EvennessWatch::new(shares(&group))),
            tls,
            tokens,
            refusals: Arc::default(),
            group: Arc::new(group),
            kernel_seen,
        }
    }

    /// A copy with the same sockets and another configuration, whose spec its other copies do not see.
    #[must_use]
    pub fn with_spec(
        &self,
        spec: ListenSpec,
        tls: Option<Arc<ServedTls>>,
        tokens: Option<Arc<ServedTokens>>,
    ) -> Listener {
        Listener { spec: Arc::new(Mutex::new(Arc::new(spec))), tls, tokens, ..self.clone() }
    }

    /// The connections or datagrams that fell to each worker.
    pub(crate) fn shares(&self) -> Vec<u64> {
        shares(&self.group)
    }

    /// As it is configured.
    #[must_use]
    pub fn spec(&self) -> Arc<ListenSpec> {
        Arc::clone(&self.spec.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes what can change while the listener is served. Workers keep what they were given.
    pub fn set_spec(&self, spec: ListenSpec) {
        *self.spec.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(spec);
    }
}

/// With a socket for each worker, what its socket got: a worker that helps another has no larger share.
fn shares(group: &Group) -> Vec<u64> {
    if group.distribution() != Distribution::Reuseport {
        return group.taken();
    }
    let mut shares = vec![0; group.workers()];
    for socket in group.sockets() {
        if let Some(share) = socket.worker().and_then(|worker| shares.get_mut(worker)) {
            *share += socket.counters().accepted() + socket.counters().received();
        }
    }
    shares
}
