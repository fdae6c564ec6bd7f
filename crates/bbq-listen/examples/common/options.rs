//! The options of the examples, and what each says when it listens.

use std::io::{self, Write};

use bbq_listen::{
    Address, Distribution, Group, GroupOptions, ListenError, Steering, raise_descriptor_limit, worker_count,
};

/// The options of every example.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen: HOST:PORT or TRANSPORT://ADDRESS. Port 0 lets the system choose
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: String,
    /// How many workers; one per processor unless given
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// How connections are spread over the workers
    #[arg(long, value_name = "MODE", default_value_t = Distribution::Auto)]
    distribution: Distribution,
    /// How a worker is chosen for a connection, where each has a socket: hash, cpu, load, weights:A,B,...
    #[arg(long, value_name = "RULE", default_value_t = Steering::Hash)]
    steering: Steering,
}

impl Options {
    /// Opens the group at `listen`, which is of tcp if it does not say what of.
    pub(crate) fn open(&self) -> Result<Group, ListenError> {
        let text = &self.listen;
        self.open_at(if text.contains("://") { text.parse()? } else { Address::parse("tcp", text)? })
    }

    /// Opens the group at `address`, or adopts the sockets that were passed to the process.
    pub(crate) fn open_at(&self, address: Address) -> Result<Group, ListenError> {
        raise_descriptor_limit();
        let options = GroupOptions::new(address, self.workers.unwrap_or_else(worker_count));
        options.distribution(self.distribution).steering(self.steering.clone()).activated_or_open()
    }
}

/// Says `listening on ADDR by DISTRIBUTION, N workers` on standard output, with the reason where the distribution is not the one
/// asked for.
pub(crate) fn announce(group: &Group) -> io::Result<()> {
    let (address, distribution, workers) = (group.local_address(), group.distribution(), group.workers());
    let mut out = io::stdout().lock();
    write!(out, "listening on {address} by {distribution}, {workers} workers")?;
    if let Some(reason) = group.fallback() {
        write!(out, " ({reason})")?;
    }
    if let Some(steering) =
        group.steering().filter(|steering| !steering.starts_with("hash by") && steering != "hash")
    {
        write!(out, ", steered by {steering}")?;
    }
    writeln!(out)?;
    out.flush()
}
