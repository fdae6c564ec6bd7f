//! The master: it has the sockets, starts the children, reports when one is replaced, and stops them all.

use std::io::{self, Write};

use bbq_listen::Group;
use bbq_prefork::{AsyncPreforkPool, Child, PoolEvent, PreforkPool};
use tokio::runtime::Builder;

use crate::exchange::Exchange;
use crate::options::announce;
use crate::stop_signals::StopSignals;

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(group: &Group, allow_block: bool) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = StopSignals::new(&runtime)?;
    let pool = PreforkPool::start(group, |child| serve(child, allow_block))?;
    announce(group)?;
    let mut pids: Vec<Option<u32>> = pool.pids().collect();
    let mut given_up = None;
    let pool = runtime.block_on(async {
        let mut pool = AsyncPreforkPool::new(pool)?;
        let mut stopping = false;
        while !pool.has_ended() {
            tokio::select! {
                () = signals.received(), if !stopping => {
                    stopping = true;
                    pool.stop()?;
                }
                done = pool.handle_events(|event| report(event, &mut given_up)) => {
                    done?;
                    for (known, pid) in pids.iter_mut().zip(pool.pids()) {
                        *known = pid.or(*known);
                    }
                    if given_up.is_some() && !stopping {
                        stopping = true;
                        pool.stop()?;
                    }
                }
            }
        }
        io::Result::Ok(pool)
    })?;
    for (worker, (connections, requests)) in pool.taken().into_iter().zip(pool.served()).enumerate() {
        let pid = pids[worker].unwrap_or_default();
        writeln!(
            io::stdout(),
            "worker {worker}: process {pid}, {connections} connections, {requests} requests"
        )?;
    }
    given_up.map_or(Ok(()), |reason| Err(anyhow::anyhow!("{reason}")))
}

/// A child.
fn serve(child: &Child<'_>, allow_block: bool) -> io::Result<()> {
    let mut exchange = Exchange::new(allow_block);
    let served = child.serve(|connection| exchange.handle(connection, child.served()));
    if let Err(error) = &served {
        eprintln!("prefork: process {} of worker {}: {error}", std::process::id(), child.worker());
    }
    served
}

fn report(event: PoolEvent, given_up: &mut Option<String>) {
    match event {
        PoolEvent::Replaced { worker, pid, status, inherited, refused } => {
            eprintln!(
                "prefork: process {pid} of worker {worker} ended ({status}); its successor gets {inherited} connections"
            );
            if refused > 0 {
                eprintln!(
                    "prefork: {refused} connections were closed, because several processes died while they handled them"
                );
            }
        }
        PoolEvent::StartFailed { worker, reason, retry_in } => {
            eprintln!("prefork: worker {worker} is tried again in {} ms: {reason}", retry_in.as_millis());
        }
        PoolEvent::Blocked { worker, pid } => {
            eprintln!("prefork: process {pid} of worker {worker} is blocked; the others take what comes");
        }
        PoolEvent::Stopped { worker, pid } => {
            eprintln!("prefork: process {pid} of worker {worker} is stopped; the others take what comes");
        }
        PoolEvent::Recovered { worker, pid, rescued } => {
            eprintln!(
                "prefork: process {pid} of worker {worker} serves again; the others took {rescued} connections from it"
            );
        }
        PoolEvent::GivenUp { worker, reason } => {
            *given_up = Some(format!("worker {worker} is given up: {reason}"))
        }
        _ => {}
    }
}
