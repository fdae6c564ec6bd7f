//! Senders of every kind. Each has a thread, sends until it is stopped, and then waits for acknowledgements.

mod client;
mod datagrams;
mod library;
mod program;
mod text;
mod whole;

use std::sync::Arc;

use bbq_client::AckLevel;

use crate::random::Random;
pub(crate) use client::{Client, Field, PATIENCE};

/// One of each kind.
pub(crate) fn all(field: &Arc<Field>, random: &Random) -> Vec<Box<dyn Client>> {
    let places = &field.places;
    let [tcp, unix] = places.servers();
    let random = |number: u64| random.fork(number);
    let spool = |name: &str| Some(places.clients.join(name));
    vec![
        Box::new(library::Library::new(&tcp, AckLevel::Durable, None, random(1))),
        Box::new(library::Library::new(&unix, AckLevel::Durable, None, random(2))),
        Box::new(library::Library::new(&tcp, AckLevel::Durable, spool("library"), random(3))),
        Box::new(library::Library::new(&tcp, AckLevel::Received, None, random(4))),
        Box::new(library::Library::new(&unix, AckLevel::None, None, random(5))),
        Box::new(program::Program::new(&tcp, None, random(6))),
        Box::new(program::Program::new(&unix, spool("program"), random(7))),
        Box::new(text::Text::new(text::Protocol::Lines, places.address(1), random(8))),
        Box::new(text::Text::new(text::Protocol::Lines, places.address(1), random(9))),
        Box::new(text::Text::new(text::Protocol::Syslog, places.address(2), random(10))),
        Box::new(whole::Whole::new(places.address(4))),
        Box::new(datagrams::Datagrams::new(datagrams::Protocol::Syslog, places.address(3), random(11))),
        Box::new(datagrams::Datagrams::new(datagrams::Protocol::Bbq, places.address(5), random(12))),
    ]
}
