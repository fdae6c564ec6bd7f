//! The start of a text connection. The connection is read at once: usually its first bytes have arrived already, and often its
//! end.

use super::connection::Connection;
use super::connections::READS_PER_TURN_MAX;
use super::framer::Framer;
use super::reading::ReadOutcome;
use crate::worker::arrival::{Arrival, ArrivalOutcome};
use crate::worker::memory_budget::MemoryShare;

/// Reads a connection, and keeps it if more may come.
pub(crate) fn begin(arrival: Arrival<'_>) -> ArrivalOutcome {
    let (peer, protocol) = (arrival.peer, arrival.listener().spec.protocol);
    let Arrival { intake, idle, listener_index, accepted, address, .. } = arrival;
    let Some(framer) = Framer::of(protocol) else { return ArrivalOutcome::Closed };
    let Some(stream) = intake.listeners[listener_index].stream(accepted.stream) else {
        return ArrivalOutcome::Closed;
    };
    let last_active = intake.view.active_sessions.now();
    let mut connection = Connection {
        stream,
        framer,
        peer,
        open: None,
        memory: MemoryShare::default(),
        last_active,
        waits: false,
    };
    for _ in 0..READS_PER_TURN_MAX {
        // It is read, and made to wait, as one of the open connections.
        if !intake.has_room(listener_index) || intake.listeners[listener_index].over_rate(peer).is_some() {
            break;
        }
        match intake.read(listener_index, &mut connection) {
            ReadOutcome::Finished => return ArrivalOutcome::Closed,
            ReadOutcome::Blocked => break,
            // Reads again even after a short read: the end of a short connection has usually arrived.
            ReadOutcome::Drained | ReadOutcome::More => {}
        }
    }
    connection.open = Some(intake.connections.open.add(accepted.open, address));
    idle.connections.add(intake, connection);
    ArrivalOutcome::Open
}
