//! Seed 001's name server: answers from a zone file held in memory, by UDP and TCP.
//!
//!     cargo run --release -p bbq-listen --example dns_cache -- --listen 127.0.0.1:5300 --zone example.zone
//!     dig @127.0.0.1 -p 5300 www.example.org AAAA
//!
//! `--listen HOST:PORT` means both transports, `udp://HOST:PORT` and `tcp://HOST:PORT` one. Bind to an address: a reply
//! from `0.0.0.0` leaves a host with several by the one that the route has, and not by the one that was asked.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/conversation.rs"]
mod conversation;
mod responder;
mod table;
mod wire;
mod zone;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use bbq_listen::{
    Address, AsyncDatagrams, AsyncListener, Datagram, Group, ListenError, Outbox, ReceiveState, Seat,
};
use clap::Parser;
use conversation::{Next, OUTPUT_BYTES_ENOUGH, Protocol};
use responder::{Carrier, respond};
use table::Table;

/// Longer queries are none.
const QUERY_BYTES_MAX: usize = 4096;
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
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let table = load(&arguments.zone).with_context(|| format!("--zone {}", arguments.zone.display()))?;
    let groups = open(&arguments.options)?;
    eprintln!("{} names", table.names());
    let all: Vec<&Group> = groups.iter().collect();
    common::serve(&all, |worker, stop| work(&groups, worker, stop, Arc::clone(&table)))
}

fn load(path: &Path) -> anyhow::Result<Arc<Table>> {
    let text = std::fs::read_to_string(path)?;
    Ok(Arc::new(Table::new(&zone::parse(&text)?)?))
}

/// One group, or one of UDP and one of TCP at the same port.
fn open(options: &common::Options) -> anyhow::Result<Vec<Group>> {
    if options.listen.contains("://") {
        return Ok(vec![options.open(common::address(&options.listen)?)?]);
    }
    let address = Address::parse("udp", &options.listen)?;
    let chosen_by_system = address.socket_address().is_some_and(|address| address.port() == 0);
    let mut tries = if chosen_by_system { PORTS_TRIED_MAX } else { 1 };
    loop {
        let datagrams = options.open(address.clone())?;
        let Some(local) = datagrams.local_address().socket_address() else { return Ok(vec![datagrams]) };
        tries -= 1;
        match options.open(Address::Tcp(local)) {
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
) -> anyhow::Result<String> {
    let by_stream = Arc::new(Streams { table: Arc::clone(&table), answered: AtomicU64::new(0) });
    let mut datagrams = None;
    let mut streams = None;
    for group in groups {
        let seat = group.seat(worker)?;
        if group.local_address().transport().is_stream() {
            let (listener, by_stream) = (AsyncListener::new(seat)?, Arc::clone(&by_stream));
            let begin =
                move |accepted: bbq_listen::Accepted| conversation::begin(accepted.stream, &by_stream);
            streams = Some(tokio::spawn(common::accept(listener, stop.clone(), begin)));
        } else {
            datagrams = Some(seat);
        }
    }
    let (mut sent, mut failed) = (0, 0);
    if let Some(seat) = datagrams {
        let mut outbox = Outbox::new(Arc::clone(seat.socket()));
        answer_datagrams(seat, stop, &table, &mut outbox).await?;
        (sent, failed) = (outbox.sent(), outbox.failed());
    }
    if let Some(streams) = streams {
        streams.await??;
    }
    conversation::last_turns().await;
    Ok(format!(
        "{sent} answers by udp, {failed} not sent, {} answers by tcp",
        by_stream.answered.load(Relaxed)
    ))
}

/// Answers until `stop`, then what waits already.
async fn answer_datagrams(
    seat: Seat,
    stop: common::Stop,
    table: &Table,
    outbox: &mut Outbox,
) -> std::io::Result<()> {
    let mut datagrams = AsyncDatagrams::with_datagram_bytes_max(seat, QUERY_BYTES_MAX)?;
    let answer = |datagram: Datagram<'_>, outbox: &mut Outbox| {
        let Some(peer) = datagram.peer.0 else { return };
        outbox.add(peer, |output| respond(table, datagram.bytes, Carrier::Datagram, output));
    };
    let mut stop = pin!(stop.requested());
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            turn = datagrams.turn(|datagram| answer(datagram, outbox)) => turn.map(drop)?,
        }
        outbox.send();
    }
    while datagrams.turn_now(|datagram| answer(datagram, outbox))?.state == ReceiveState::More {
        tokio::task::yield_now().await;
    }
    outbox.send();
    Ok(())
}

/// Queries over TCP: each behind its length in two bytes.
struct Streams {
    table: Arc<Table>,
    answered: AtomicU64,
}

impl Protocol for Arc<Streams> {
    fn answer(&self, input: &[u8], output: &mut Vec<u8>) -> (usize, Next) {
        let mut rest = input;
        let next = loop {
            let Some((length, behind)) = rest.split_first_chunk() else { break Next::Read };
            let length = usize::from(u16::from_be_bytes(*length));
            if length > QUERY_BYTES_MAX {
                break Next::Refuse;
            }
            let Some((query, behind)) = behind.split_at_checked(length) else { break Next::Read };
            let at = output.len();
            output.extend_from_slice(&[0, 0]);
            if !respond(&self.table, query, Carrier::Stream, output) {
                output.truncate(at);
                break Next::Close;
            }
            let length = (output.len() - at - 2) as u16; // the responder's limit
            output[at..at + 2].copy_from_slice(&length.to_be_bytes());
            self.answered.fetch_add(1, Relaxed);
            rest = behind;
            if output.len() >= OUTPUT_BYTES_ENOUGH {
                break Next::Write;
            }
        };
        (input.len() - rest.len(), next)
    }
}
