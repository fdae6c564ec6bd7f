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
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/conversation.rs"]
mod conversation;
mod datagrams;
mod responder;
mod streams;
mod table;
mod wire;
mod zone;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bbq_listen::{Accepted, Address, AsyncListener, Group, ListenError};
use clap::Parser;
use datagrams::Datagrams;
use streams::Streams;
use table::Table;

/// The longest query.
pub(crate) const QUERY_BYTES_MAX: usize = 4096;
/// Where the system chooses the port for UDP, TCP may have it in use; then another is tried.
const PORTS_TRIED_MAX: usize = 8;

/// Answers DNS queries from a zone file.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: common::Options,
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
    let all: Vec<&Group> = groups.iter().collect();
    common::serve(&all, |worker, stop| work(&groups, worker, stop, Arc::clone(&table), arguments.allow_block))
}

fn load(path: &Path) -> anyhow::Result<Arc<Table>> {
    let text = std::fs::read_to_string(path)?;
    Ok(Arc::new(Table::new(&zone::parse(&text)?)?))
}

/// One group, or one of UDP and one of TCP at the same port.
fn open(options: &common::Options) -> anyhow::Result<Vec<Group>> {
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

async fn work(
    groups: &[Group],
    worker: usize,
    stop: common::Stop,
    table: Arc<Table>,
    allow_block: bool,
) -> anyhow::Result<String> {
    let by_stream = Arc::new(Streams::new(Arc::clone(&table)));
    let mut by_datagram = None;
    let mut streams = None;
    for group in groups {
        let worker_listener = group.worker_listener(worker)?;
        if group.local_address().transport().is_stream() {
            let (listener, by_stream) = (AsyncListener::new(worker_listener)?, Arc::clone(&by_stream));
            let begin = move |accepted: Accepted| conversation::begin(accepted.stream, &by_stream);
            streams = Some(tokio::spawn(common::accept(listener, stop.clone(), begin)));
        } else {
            by_datagram = Some(Datagrams::new(worker_listener, Arc::clone(&table), allow_block)?);
        }
    }
    let (mut sent, mut failed) = (0, 0);
    if let Some(by_datagram) = by_datagram {
        (sent, failed) = by_datagram.serve(stop).await?;
    }
    if let Some(streams) = streams {
        streams.await??;
    }
    conversation::last_turns().await;
    Ok(format!("{sent} answers by udp, {failed} not sent, {} answers by tcp", by_stream.answered()))
}
