//! The parts that a worker is made of, before it runs.

use std::sync::Arc;

use bbq_listen::WorkerListener;
use bbq_spool::Lane;
use bbq_stored::{ListenerLedger, Replicas, Retention, Streams};
use bbq_tls::ServedTls;
use tokio::sync::watch;

use super::accept::budget::ConnectionBudget;
use super::accept::paused::PausedConnection;
use super::limits::IntakeLimits;
use super::session::handover::{SessionInbox, WorkerMesh};
use super::stopping::Command;
use super::view::WorkerView;
use crate::access::{AddressLimit, AddressRate, Floods, Growth, PeerLog, ServedTokens};
use crate::listen::ListenSpec;

/// One listener as one worker serves it.
pub(crate) struct ListenerSetup {
    pub(crate) spec: Arc<ListenSpec>,
    pub(crate) ledger: Arc<ListenerLedger>,
    pub(crate) worker_listener: WorkerListener,
    /// `None` for a plain listener.
    pub(crate) tls: Option<Arc<ServedTls>>,
    /// `None` if the listener asks for no token.
    pub(crate) tokens: Option<Arc<ServedTokens>>,
    pub(crate) refusals: Arc<PeerLog>,
    /// `None` if an address may have any number of connections.
    pub(crate) address_limit: Option<Arc<AddressLimit>>,
    /// `None` if an address may send any number of messages.
    pub(crate) address_rate: Option<Arc<AddressRate>>,
    pub(crate) floods: Arc<Floods>,
    pub(crate) growth: Arc<Growth>,
}

/// A worker before it runs.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) lane: Lane,
    pub(crate) listeners: Vec<ListenerSetup>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) mesh: WorkerMesh,
    pub(crate) inbox: SessionInbox,
    pub(crate) budget: Arc<ConnectionBudget>,
    pub(crate) limits: IntakeLimits,
    pub(crate) view: Arc<WorkerView>,
    pub(crate) stop: watch::Receiver<Command>,
    /// Connections that were open before the start; the worker continues them.
    pub(crate) paused: Vec<PausedConnection>,
}
