//! Seed 004's server: a master opens all sockets, and child processes inherit them. Answers every GET with the number of
//! the process that took it.
//!
//!     cargo run --release -p bbq-listen --example prefork -- --listen 127.0.0.1:8080 --processes 4
//!     curl http://127.0.0.1:8080/
//!
//! A child that ends or is killed is replaced, and its successor takes the same socket: the master has it open all the
//! time, so what waits on it goes on waiting and is answered. Only what the child had accepted already goes with it; it
//! answers each connection before it accepts the next. SIGTERM to the master ends the children, which take what is queued.

#[path = "../common/block.rs"]
mod block;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/conversation.rs"]
mod conversation;
#[path = "../common/http.rs"]
mod http;
mod master;
#[path = "../common/site.rs"]
mod site;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::Context;
use bbq_listen::{AsyncListener, Distribution, Group};
use clap::Parser;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use site::Site;

/// Answers from several processes.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: common::Options,
    /// How many child processes; the same as --workers
    #[arg(long, value_name = "N")]
    processes: Option<usize>,
    /// Let GET /block/MS block the process that meets it for MS milliseconds, at most 10 s
    #[arg(long)]
    allow_block: bool,
    /// Be a child of this process; its socket is standard input
    #[arg(long, hide = true, value_name = "PID")]
    child_of: Option<i32>,
}

fn main() -> anyhow::Result<()> {
    let mut arguments = Arguments::parse();
    if let Some(master) = arguments.child_of {
        return child(&arguments, master);
    }
    arguments.options.workers = arguments.processes.or(arguments.options.workers);
    let group = arguments.options.open(common::address(&arguments.options.listen)?)?;
    anyhow::ensure!(
        !matches!(group.distribution(), Distribution::AcceptMutex | Distribution::Handoff(_)),
        "{} passes connections between the threads of one process; use auto, reuseport, shared or duplicate",
        group.distribution()
    );
    let sockets = group.sockets().len();
    anyhow::ensure!(
        sockets <= group.workers(),
        "{} processes cannot serve {sockets} sockets; use --processes {sockets} or more",
        group.workers()
    );
    master::run(&group, arguments.allow_block)
}

/// A process with one seat, on the socket that it was started with.
fn child(arguments: &Arguments, master: i32) -> anyhow::Result<()> {
    // Nobody would end it otherwise. The master may be gone already.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    anyhow::ensure!(getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == master), "no master");
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let group = Group::adopt(&arguments.options.group(arguments.options.listen.parse()?), vec![socket])
        .context("standard input")?;
    let page = format!("process {}\n", std::process::id());
    common::serve(&[&group], |worker, stop| work(&group, worker, stop, &page, arguments.allow_block))
}

async fn work(
    group: &Group,
    worker: usize,
    stop: common::Stop,
    page: &str,
    allow_block: bool,
) -> anyhow::Result<String> {
    let listener = AsyncListener::new(group.seat(worker)?)?;
    let site = Arc::new(Site::new(page.as_bytes(), allow_block));
    let mut connections = 0_u64;
    common::accept(listener, stop, |accepted| {
        connections += 1;
        conversation::begin(accepted.stream, &site);
    })
    .await?;
    conversation::last_turns().await;
    Ok(format!("{connections} connections, {} requests", site.requests()))
}
