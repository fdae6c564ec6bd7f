//! The socket of a sink that passes messages on: what it has written waits here for the network, and what has arrived for the sink.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bbq_sink_forward::LinkNetwork;
use bbq_wire::StreamId;

use crate::network::Network;
use crate::random::Random;
use crate::servers::Servers;

/// See the module. One connection at a time.
#[derive(Debug)]
pub(crate) struct Port {
    servers: Servers,
    state: Mutex<State>,
    random: Mutex<Random>,
}

#[derive(Debug, Default)]
struct State {
    /// A connection to this server is to be made.
    wanted: Option<usize>,
    connection: Option<u64>,
    /// Connections that the sink has given up.
    left: Vec<u64>,
    output: Vec<u8>,
    input: Vec<u8>,
    /// Nothing more arrives.
    is_over: bool,
}

impl Port {
    /// `random` draws the ids of links.
    pub(super) fn new(servers: Servers, random: Random) -> Port {
        Port { servers, state: Mutex::default(), random: Mutex::new(random) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves bytes between the sink and the network.
    pub(super) fn carry(&self, network: &mut Network) {
        let mut state = self.state();
        let State { wanted, connection, left, output, input, is_over } = &mut *state;
        left.drain(..).for_each(|number| network.leave(number));
        if let Some(server) = wanted.take() {
            *connection = Some(network.connect(server));
        }
        let Some(number) = *connection else { return };
        match network.get(number) {
            Some(made) => {
                made.up.write(output);
                input.append(&mut made.down.arrived);
                *is_over = made.down.is_at_end();
            }
            None => *is_over = true,
        }
        output.clear();
    }

    /// The process of the sink ends, in order or not.
    pub(super) fn end(&self, network: &mut Network, random: &mut Random) {
        self.leave();
        for number in self.state().left.drain(..) {
            if random.one_in(2) {
                network.cut(number, random);
            }
            network.leave(number);
        }
    }
}

impl LinkNetwork for Port {
    fn new_id(&self) -> StreamId {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random.next().to_le_bytes());
        id[8..].copy_from_slice(&random.next().to_le_bytes());
        StreamId(id)
    }

    fn connect(&self, server: usize) {
        self.leave();
        self.state().wanted = Some(self.servers.at(server));
    }

    fn write(&self, bytes: &[u8]) -> usize {
        self.state().output.extend_from_slice(bytes);
        bytes.len()
    }

    fn read(&self, input: &mut Vec<u8>) -> bool {
        let mut state = self.state();
        input.append(&mut state.input);
        state.is_over
    }

    fn leave(&self) {
        let mut state = self.state();
        let left = state.connection.take();
        state.left.extend(left);
        state.wanted = None;
        state.output.clear();
        state.input.clear();
        state.is_over = false;
    }
}
