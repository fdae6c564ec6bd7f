//! Seed 004's server: a master opens all sockets, and child processes inherit them. Answers every GET with the number of
//! the process that took it.
//!
//!     cargo run --release -p bbq-prefork --example prefork -- --listen 127.0.0.1:8080 --processes 4
//!     curl http://127.0.0.1:8080/
//!
//! A child that ends or is killed is replaced, and no connection is lost: connections stay in the queue of its socket, and the
//! successor takes over those that it had accepted, in the middle of a response if need be (`bbq_prefork::PreforkPool`). SIGTERM
//! to the master ends the children, after they handled what is queued.

#[path = "../../../bbq-listen/examples/common/block.rs"]
mod block;
#[path = "../../../bbq-listen/examples/common/conversation.rs"]
#[expect(dead_code, reason = "only its terms: a connection that may change hands is served by an exchange")]
mod conversation;
mod exchange;
#[path = "../../../bbq-listen/examples/common/http.rs"]
mod http;
mod master;
#[path = "../../../bbq-listen/examples/common/options.rs"]
mod options;
#[path = "../../../bbq-listen/examples/common/site.rs"]
mod site;
mod stop_signals;

use clap::Parser;
use rustix::net::sockopt::set_tcp_nodelay;

/// Answers from several processes.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: options::Options,
    /// How many child processes; the same as --workers
    #[arg(long, value_name = "N")]
    processes: Option<usize>,
    /// Let GET /block/MS block the process that meets it for MS milliseconds, at most 10 s
    #[arg(long)]
    allow_block: bool,
}

fn main() -> anyhow::Result<()> {
    let mut arguments = Arguments::parse();
    arguments.options.workers = arguments.processes.or(arguments.options.workers);
    let group = arguments.options.open()?;
    for socket in group.sockets() {
        // A response must not wait for the acknowledgement of the one before it. Connections inherit the option from their
        // listener. Unix sockets refuse it, and do not need it.
        let _ = set_tcp_nodelay(&socket, true);
    }
    master::run(&group, arguments.allow_block)
}
