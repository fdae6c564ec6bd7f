//! The server's end of a connection: a send buffer of limited size, which the network empties.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bbq_intake::simulated::{Connection, Sent};

use crate::network;

/// Bytes in the send buffer that the network has not taken.
#[derive(Debug)]
pub(super) struct Buffer {
    /// The size of the buffer. Bytes in flight count, too.
    bytes_max: usize,
    taken: RefCell<Vec<u8>>,
    room: Cell<usize>,
    /// The client is gone.
    is_broken: Cell<bool>,
}

/// The session's handle of the socket.
#[derive(Clone, Debug)]
pub(super) struct Socket(pub(super) Rc<Buffer>);

impl Socket {
    pub(super) fn new(bytes_max: usize) -> Socket {
        let (room, is_broken) = (Cell::new(bytes_max), Cell::new(false));
        Socket(Rc::new(Buffer { bytes_max, taken: RefCell::default(), room, is_broken }))
    }
}

impl Buffer {
    /// Passes buffered bytes to the network. Returns how many bytes the network took.
    pub(super) fn carry(&self, connection: &mut network::Connection) -> usize {
        let mut taken = self.taken.borrow_mut();
        let carried = taken.len();
        connection.down.write(&taken);
        taken.clear();
        self.room.set(self.bytes_max.saturating_sub(connection.down.in_flight()));
        self.is_broken.set(connection.down.is_at_end());
        carried
    }
}

impl Connection for Socket {
    fn send(&self, bytes: &[u8]) -> Sent {
        let Buffer { taken, room, is_broken, .. } = &*self.0;
        if is_broken.get() {
            return Sent::Gone;
        }
        let sent = bytes.len().min(room.get());
        room.set(room.get() - sent);
        taken.borrow_mut().extend_from_slice(&bytes[..sent]);
        if sent == 0 { Sent::Full } else { Sent::Bytes(sent) }
    }

    /// Does nothing: every session is polled anyway.
    fn wake(&self) {}
}
