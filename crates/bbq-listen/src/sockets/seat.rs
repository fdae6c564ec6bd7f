//! A worker's place in a group.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::dispatch::door::Door;
use crate::dispatch::places::Places;
use crate::io::accepted::AcceptOutcome;
use crate::{Address, Distribution, Pulse, Socket};

/// A worker's place in a group: who it is, the socket that is its own if it has one, and the door where common sockets
/// and connections from others come in.
#[derive(Debug, Clone)]
pub struct Seat {
    worker: usize,
    address: Address,
    own: Option<Arc<Socket>>,
    first: Arc<Socket>,
    door: Arc<Door>,
    places: Arc<Places>,
}

impl Seat {
    pub(crate) fn new(
        address: Address,
        own: Option<Arc<Socket>>,
        first: Arc<Socket>,
        door: Arc<Door>,
        places: Arc<Places>,
    ) -> Self {
        Self { worker: door.worker(), address, own, first, door, places }
    }

    /// The worker's number, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Where the group listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// How the group is spread.
    pub fn distribution(&self) -> Distribution {
        self.places.distribution()
    }

    /// The socket that nobody else serves, unless this worker stalls. For an event loop: it is to be waited for, and so is
    /// [`door`](Self::door_descriptor).
    pub fn own(&self) -> Option<&Arc<Socket>> {
        self.own.as_ref()
    }

    /// A socket of the group: its own, or the first. To answer a datagram from, for example.
    pub fn socket(&self) -> &Arc<Socket> {
        self.own.as_ref().unwrap_or(&self.first)
    }

    /// The epoll that is readable when there is something to take beside the worker's own socket.
    pub fn door_descriptor(&self) -> BorrowedFd<'_> {
        self.door.as_fd()
    }

    pub(crate) fn door(&self) -> &Arc<Door> {
        &self.door
    }

    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn own_descriptor(&self) -> Option<Arc<std::os::fd::OwnedFd>> {
        self.own.as_ref().map(|socket| socket.descriptor())
    }
}

/// A seat that is served: its worker is there as long as this lives.
#[derive(Debug)]
pub(crate) struct Served {
    seat: Seat,
    pulse: Arc<Pulse>,
}

impl Served {
    pub(crate) fn new(seat: Seat) -> Self {
        let pulse = seat.places.enter(&seat.door);
        Self { seat, pulse }
    }

    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    pub(crate) fn beat(&self) {
        self.pulse.beat();
    }

    pub(crate) fn add_taken(&self, outcome: &io::Result<AcceptOutcome>) {
        if let Ok(outcome) = outcome
            && outcome.accepted > 0
        {
            self.seat.door.add_taken(outcome.accepted);
        }
    }

    pub(crate) fn add_received(&self, count: usize) {
        if count > 0 {
            self.seat.door.add_taken(count);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.seat.places.leave(&self.seat.door);
    }
}
