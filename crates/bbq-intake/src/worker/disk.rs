//! What a worker stores with: its lane, what is known of streams, and who waits until something is on disk.

use std::sync::Arc;

use bbq_spec::RateLimitedLog;
use bbq_spool::Lane;
use bbq_stored::{Replicas, Retention, Streams};
use tokio::sync::Notify;

use super::handover::WorkerMesh;
use super::session::socket::SessionSocket;
use super::setup::Worker;
use super::waiters::Waiters;

/// What a worker stores with.
pub(crate) struct Disk {
    pub(crate) lane: Lane,
    pub(crate) streams: Arc<Streams>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) mesh: WorkerMesh,
    /// Reports streams whose order could not be kept.
    pub(crate) order_lost: RateLimitedLog,
    pub(crate) waiters: Waiters<SessionSocket>,
    /// Notified by the lane's writer, and when a next server has more.
    pub(crate) lane_moved: Arc<Notify>,
    /// Notified when the lane may have room: tasks that wait for room check again.
    pub(crate) room: Notify,
}

impl Disk {
    pub(super) fn new(worker: &Worker) -> Disk {
        let lane_moved = Arc::new(Notify::new());
        let notify = Arc::clone(&lane_moved);
        worker.lane.on_progress(move || notify.notify_one());
        let notify = Arc::clone(&lane_moved);
        worker.replicas.on_advance(move || notify.notify_one());
        Disk {
            lane: worker.lane.clone(),
            streams: Arc::clone(&worker.streams),
            retention: Arc::clone(&worker.retention),
            replicas: Arc::clone(&worker.replicas),
            mesh: worker.mesh.clone(),
            order_lost: RateLimitedLog::default(),
            waiters: Waiters::default(),
            lane_moved,
            room: Notify::new(),
        }
    }
}
