//! The connections of a worker: how many it may have, which are open, and which wait for the next worker.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bbq_spec::RateLimitedLog;

use super::connections::budget::ConnectionBudget;
use super::connections::open::OpenConnections;
use super::http::{OpenHttp, TurnedAway};
use super::paused::PausedConnection;
use super::setup::Worker;

/// The connections of a worker.
pub(crate) struct HeldConnections {
    pub(crate) budget: Arc<ConnectionBudget>,
    /// The connections that are open here.
    pub(crate) open: Rc<OpenConnections>,
    /// Those of HTTP among them.
    pub(crate) open_http: Rc<OpenHttp>,
    pub(crate) turned_away: TurnedAway,
    /// Reports connections closed to make room.
    pub(crate) evictions: RateLimitedLog,
    /// Connections that another worker continues after this worker has ended.
    pub(crate) paused: RefCell<Vec<PausedConnection>>,
}

impl HeldConnections {
    pub(super) fn new(worker: &Worker) -> HeldConnections {
        HeldConnections {
            budget: Arc::clone(&worker.budget),
            open: Rc::new(OpenConnections::new(&worker.budget, &worker.view)),
            open_http: Rc::default(),
            turned_away: TurnedAway::default(),
            evictions: RateLimitedLog::default(),
            paused: RefCell::default(),
        }
    }
}
