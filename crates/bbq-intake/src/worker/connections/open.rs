//! Counts the open connections of a worker, and holds each one's share of the process's budget.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_listen::OpenCount;
use tokio::sync::Notify;

use super::budget::{BudgetShare, ConnectionBudget};
use crate::access::AddressShare;
use crate::worker::view::WorkerView;

/// The connections that are open at one worker.
pub(crate) struct OpenConnections {
    count: Cell<usize>,
    all_closed: Notify,
    budget: Arc<ConnectionBudget>,
    view: Arc<WorkerView>,
}

impl OpenConnections {
    pub(crate) fn new(budget: &Arc<ConnectionBudget>, view: &Arc<WorkerView>) -> OpenConnections {
        OpenConnections {
            count: Cell::new(0),
            all_closed: Notify::new(),
            budget: Arc::clone(budget),
            view: Arc::clone(view),
        }
    }

    /// Counts a new connection, whose share of the budget was claimed, and that of its address, if it needs one.
    pub(crate) fn add(
        self: &Rc<Self>,
        count: Option<OpenCount>,
        address: Option<Box<AddressShare>>,
    ) -> OpenConnection {
        self.receive(BudgetShare::of_claimed(&self.budget, address), count)
    }

    /// Counts a connection that another worker has handed over.
    pub(crate) fn receive(self: &Rc<Self>, budget: BudgetShare, count: Option<OpenCount>) -> OpenConnection {
        self.count.set(self.count.get() + 1);
        self.view.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection { open: Counted(Rc::clone(self)), budget, count }
    }

    /// Waits until no connection is open.
    pub(crate) async fn all_closed(&self) {
        while self.count.get() > 0 {
            self.all_closed.notified().await;
        }
    }
}

/// A connection that is counted as open while this lives, whether it has a task or not.
pub(crate) struct OpenConnection {
    open: Counted,
    budget: BudgetShare,
    /// Counts the connection for the way in which bbq-listen distributes new ones.
    count: Option<OpenCount>,
}

impl OpenConnection {
    /// Hands the connection to another worker: this worker no longer counts it, and the connection keeps its share of the budget.
    pub(crate) fn into_parts(self) -> (BudgetShare, Option<OpenCount>) {
        drop(self.open);
        (self.budget, self.count)
    }
}

/// Counts a connection at one worker.
struct Counted(Rc<OpenConnections>);

impl Drop for Counted {
    fn drop(&mut self) {
        let open = &self.0;
        open.count.set(open.count.get() - 1);
        open.view.connections.fetch_sub(1, Ordering::Relaxed);
        if open.count.get() == 0 {
            open.all_closed.notify_one();
        }
    }
}
