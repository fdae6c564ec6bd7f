//! The process that has the sockets: starts the children, says when one is replaced, and ends them all.

use std::io::{self, Write};

use bbq_listen::Group;
use bbq_prefork::{AsyncFamily, Family, FamilyEvent, Member};

use crate::common;
use crate::exchange::Exchange;

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(group: &Group, allow_block: bool) -> anyhow::Result<()> {
    let runtime = common::runtime()?;
    let mut signals = common::Signals::new(&runtime)?;
    let family = Family::start(group, |member| serve(member, allow_block))?;
    common::announce(group)?;
    let mut pids: Vec<Option<u32>> = family.pids().collect();
    let mut given_up = None;
    let family = runtime.block_on(async {
        let mut family = AsyncFamily::new(family)?;
        let mut stopping = false;
        while !family.has_ended() {
            tokio::select! {
                () = signals.received(), if !stopping => {
                    stopping = true;
                    family.stop()?;
                }
                done = family.turn(|event| report(event, &mut given_up)) => {
                    done?;
                    for (known, pid) in pids.iter_mut().zip(family.pids()) {
                        *known = pid.or(*known);
                    }
                    if given_up.is_some() && !stopping {
                        stopping = true;
                        family.stop()?;
                    }
                }
            }
        }
        io::Result::Ok(family)
    })?;
    for (worker, (connections, requests)) in family.taken().into_iter().zip(family.served()).enumerate() {
        let pid = pids[worker].unwrap_or_default();
        writeln!(
            io::stdout(),
            "worker {worker}: process {pid}, {connections} connections, {requests} requests"
        )?;
    }
    given_up.map_or(Ok(()), |reason| Err(anyhow::anyhow!("{reason}")))
}

/// A child.
fn serve(member: &Member<'_>, allow_block: bool) -> io::Result<()> {
    let mut exchange = Exchange::new(allow_block);
    let served = member.serve(|connection| exchange.turn(connection, member.served()));
    if let Err(error) = &served {
        eprintln!("prefork: process {} of worker {}: {error}", std::process::id(), member.seat());
    }
    served
}

fn report(event: FamilyEvent, given_up: &mut Option<String>) {
    match event {
        FamilyEvent::Replaced { seat, pid, status, inherited, refused } => {
            eprintln!(
                "prefork: process {pid} of worker {seat} ended ({status}); its successor has {inherited} connections"
            );
            if refused > 0 {
                eprintln!("prefork: {refused} connections were closed, because processes end over them");
            }
        }
        FamilyEvent::GivenUp { seat, reason } => {
            *given_up = Some(format!("worker {seat} is given up: {reason}"))
        }
        _ => {}
    }
}
