//! Seed 001's name server: answers from a zone file held in memory, by UDP and TCP.
//!
//!     cargo run --release -p bbq-listen --example dns_cache -- --listen 127.0.0.1:5300 --zone example.zone
//!     dig @127.0.0.1 -p 5300 www.example.org AAAA
//!
//! `--listen HOST:PORT` means both transports, `udp://HOST:PORT` and `tcp://HOST:PORT` one. Bind to one address: on a host with
//! several, a reply from `0.0.0.0` has the address of the route, which may not be the one of the query.
//!
//! With `--allow-block`, a query by UDP for a name that begins with `block-500.` blocks the whole worker for 500 ms before it
//! is answered.

#[path = "../common/block.rs"]
mod block;
#[path = "../common/conversation.rs"]
mod conversation;
mod datagrams;
#[path = "../common/front_door.rs"]
mod front_door;
mod responder;
mod streams;
mod table;
mod wire;
mod zone;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bbq_listen::{Address, Group, ListenError, TokioRunner};
use clap::Parser;
use table::Table;

/// Where the system chooses the port for UDP, TCP may have it in use; then another is tried.
const PORTS_TRIED_MAX: usize = 8;

/// Answers DNS queries from a zone file.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: front_door::Options,
    /// The zone, in the text format of RFC 1035
    #[arg(long, value_name = "FILE")]
    zone: PathBuf,
    /// Let a query for block-MS.anything block the worker that meets it for MS milliseconds, at most 10 s
    #[arg(long)]
    allow_block: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let table = load(&arguments.zone).with_context(|| format!("--zone {}", arguments.zone.display()))?;
    let groups = open(&arguments.options)?;
    eprintln!("{} names", table.names());
    let mut runner = TokioRunner::new().yield_before_sleep(true).on_stall(|event| eprintln!("{event:?}"));
    for group in &groups {
        let table = &table;
        runner = if group.local_address().transport().is_stream() {
            runner.serve(group, move |listener| {
                streams::serve(front_door::announced(group, listener), Arc::clone(table))
            })
        } else {
            runner.serve_datagrams(group, move |queries| {
                front_door::announce_once(group, queries.worker_listener());
                datagrams::serve(queries, Arc::clone(table), arguments.allow_block)
            })
        };
    }
    Ok(runner.run()?)
}

fn load(path: &Path) -> anyhow::Result<Arc<Table>> {
    let text = std::fs::read_to_string(path)?;
    Ok(Arc::new(Table::new(&zone::parse(&text)?)?))
}

/// One group, or one of UDP and one of TCP at the same port.
fn open(options: &front_door::Options) -> anyhow::Result<Vec<Group>> {
    if options.listen.contains("://") {
        return Ok(vec![options.open()?]);
    }
    let address = Address::parse("udp", &options.listen)?;
    let chosen_by_system = address.socket_address().is_some_and(|address| address.port() == 0);
    let mut tries = if chosen_by_system { PORTS_TRIED_MAX } else { 1 };
    loop {
        let datagrams = options.open_at(address.clone())?;
        let Some(local) = datagrams.local_address().socket_address() else { return Ok(vec![datagrams]) };
        tries -= 1;
        match options.open_at(Address::Tcp(local)) {
            Err(ListenError::AddressInUse { .. }) if tries > 0 => {}
            streams => return Ok(vec![datagrams, streams?]),
        }
    }
}
