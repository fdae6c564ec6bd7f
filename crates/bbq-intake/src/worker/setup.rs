//! The parts that a worker is made of, before it runs.

use std::sync::Arc;

use bbq_listen::WorkerListener;
use bbq_spool::Lane;
use bbq_stored::{ListenerLedger, Replicas, Retention, Streams};
use bbq_tls::ServedTls;
use tokio::sync::watch;

use super::connections::budget::ConnectionBudget;
use super::gelf::GelfChunks;
use super::handover::{SessionInbox, WorkerMesh};
use super::limits::IntakeLimits;
use super::paused::PausedConnection;
use super::stopping::Command;
use super::view::WorkerView;
use crate::access::{AddressLimit, AddressRate, Floods, Growth, PeerLog, ServedTokens};
use crate::listen::ListenSpec;

/// One listener as one worker serves it.
pub struct ListenerSetup {
    /// What is configured.
    pub spec: Arc<ListenSpec>,
    /// Counts what becomes of its messages.
    pub ledger: Arc<ListenerLedger>,
    /// The worker's part of the sockets.
    pub worker_listener: WorkerListener,
    /// `None` for a plain listener.
    pub tls: Option<Arc<ServedTls>>,
    /// `None` if the listener asks for no token.
    pub tokens: Option<Arc<ServedTokens>>,
    /// Reports who was refused.
    pub refusals: Arc<PeerLog>,
    /// `None` if an address may have any number of connections.
    pub address_limit: Option<Arc<AddressLimit>>,
    /// `None` if an address may send any number of messages.
    pub address_rate: Option<Arc<AddressRate>>,
    /// Counts the connections of HTTP/2 that flood, by address.
    pub floods: Arc<Floods>,
    /// Counts messages that are compressed too far, by address.
    pub growth: Arc<Growth>,
    /// `None` if the listener has no messages in chunks.
    pub gelf_chunks: Option<Arc<GelfChunks>>,
}

/// A worker before it runs.
pub struct Worker {
    /// Its number among the workers.
    pub index: usize,
    /// The part of the spool that it writes.
    pub lane: Lane,
    /// In the order of the configuration.
    pub listeners: Vec<ListenerSetup>,
    /// What becomes of the messages of each reader of files, in the order of the configuration.
    pub readers: Vec<Arc<ListenerLedger>>,
    /// The numbered records of all senders.
    pub streams: Arc<Streams>,
    /// Knows how far the sinks are in each lane.
    pub retention: Arc<Retention>,
    /// How far the next servers are.
    pub replicas: Arc<Replicas>,
    /// The ways to the other workers.
    pub mesh: WorkerMesh,
    /// What other workers hand over.
    pub inbox: SessionInbox,
    /// How many connections may be open, of all workers together.
    pub budget: Arc<ConnectionBudget>,
    /// What its connections may take.
    pub limits: IntakeLimits,
    /// What other threads read of it.
    pub view: Arc<WorkerView>,
    /// What it is to do.
    pub stop: watch::Receiver<Command>,
    /// Connections that were open before the start; the worker continues them.
    pub paused: Vec<PausedConnection>,
}
