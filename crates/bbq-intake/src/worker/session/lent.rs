//! What a worker lends to a session or a numbered request for a step.

use bbq_spec::unix_ns;
use bbq_wire::Peer;

use super::context::SessionContext;
use super::socket::SessionSocket;
use crate::worker::intake::Intake;

impl Intake {
    /// For a sender at a listener. Reads the clock.
    pub(crate) fn session_context(
        &self,
        listener_index: usize,
        peer: Peer,
    ) -> SessionContext<'_, SessionSocket> {
        let listener = &self.listeners[listener_index];
        SessionContext {
            lane: &self.disk.lane,
            lanes: self.disk.mesh.lanes(),
            streams: &self.disk.streams,
            retention: &self.disk.retention,
            replicas: Some(&self.disk.replicas),
            waiters: &self.disk.waiters,
            undurable: &self.view.undurable,
            scratch: &self.buffers.scratch,
            ledger: &listener.ledger,
            source: listener.source,
            limits: listener.batch_limits(),
            tokens: listener.tokens.as_deref(),
            peer,
            now_ns: unix_ns(),
        }
    }
}
