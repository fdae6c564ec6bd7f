//! Senders of every kind. Each has a thread, sends until it is stopped, and then waits for acknowledgements.

mod client;
mod crew;
mod datagrams;
mod library;
mod process;
mod program;
mod text;
mod whole;

use bbq_client::AckLevel;

use crate::random::Random;
use crate::settings::Places;
pub(crate) use client::{Client, Field, PATIENCE};
pub(crate) use crew::{Crew, end_senders};

/// Clients of two edges and the centre behind them. Those with one server keep their order.
pub(crate) fn of_edges(field: &Field, [north, south, centre]: [&str; 3], seed: u64) -> Vec<Box<dyn Client>> {
    let random = |number: u64| Random::new(seed).fork(100 + number);
    let spool = |name: &str| field.directory.join(name);
    let library = |servers: &[&str], ack, spool, number| -> Box<dyn Client> {
        Box::new(library::Library::new(servers, ack, spool, random(number)))
    };
    let program = |servers: &[&str], spool, number| -> Box<dyn Client> {
        Box::new(program::Program::new(servers, spool, random(number)))
    };
    let process = |servers: &[&str], spool, number| -> Box<dyn Client> {
        Box::new(process::Process::new(servers, spool, random(number)))
    };
    vec![
        library(&[north, south], AckLevel::Durable, None, 1),
        library(&[south, north], AckLevel::Durable, Some(spool("library-1")), 2),
        library(&[south], AckLevel::Durable, Some(spool("library-2")), 3),
        library(&[north, south], AckLevel::Replicated, None, 4),
        program(&[north, south], Some(spool("program-1")), 5),
        program(&[south, centre], Some(spool("program-2")), 6),
        program(&[south, north], None, 7),
        program(&[north], Some(spool("program-3")), 8),
        process(&[north, south], spool("process-1"), 9),
        process(&[south, north], spool("process-2"), 10),
        process(&[north, centre], spool("process-3"), 11),
        process(&[south], spool("process-4"), 12),
    ]
}

/// One of each kind.
pub(crate) fn all(places: &Places, random: &Random) -> Vec<Box<dyn Client>> {
    let [tcp, unix] = places.servers();
    let random = |number: u64| random.fork(number);
    let spool = |name: &str| Some(places.clients.join(name));
    vec![
        Box::new(library::Library::new(&[&tcp], AckLevel::Durable, None, random(1))),
        Box::new(library::Library::new(&[&unix], AckLevel::Durable, None, random(2))),
        Box::new(library::Library::new(&[&tcp], AckLevel::Durable, spool("library"), random(3))),
        Box::new(library::Library::new(&[&tcp], AckLevel::Received, None, random(4))),
        Box::new(library::Library::new(&[&unix], AckLevel::None, None, random(5))),
        Box::new(program::Program::new(&[&tcp], None, random(6))),
        Box::new(program::Program::new(&[&unix], spool("program"), random(7))),
        Box::new(text::Text::new(text::Protocol::Lines, places.address(1), random(8))),
        Box::new(text::Text::new(text::Protocol::Lines, places.address(1), random(9))),
        Box::new(text::Text::new(text::Protocol::Syslog, places.address(2), random(10))),
        Box::new(whole::Whole::new(places.address(4))),
        Box::new(datagrams::Datagrams::new(datagrams::Protocol::Syslog, places.address(3), random(11))),
        Box::new(datagrams::Datagrams::new(datagrams::Protocol::Bbq, places.address(5), random(12))),
    ]
}
