//! What several experiments do: messages into a server that writes them to a file, until they are all there.

use std::net::SocketAddrV4;
use std::path::PathBuf;

use crate::load::Load;
use crate::meter::Meter;
use crate::metric::Metric;
use crate::peers::{self, Peer};
use crate::product::{Product, Sinks};
use crate::sample::Sample;
use crate::settings::Settings;

/// A server that is ready.
#[derive(Debug)]
pub(super) enum ToFile {
    /// bbq with its spool and one file sink.
    Product(Product),
    Peer(Peer),
}

impl ToFile {
    /// bbq with a listener of this protocol, or a peer.
    pub(super) fn start(
        settings: &Settings,
        protocol: &str,
        peer: Option<peers::Start>,
    ) -> anyhow::Result<ToFile> {
        Ok(match peer {
            None => ToFile::Product(Product::start(settings, protocol, Sinks::Files(1), "")?),
            Some(start) => ToFile::Peer(start(settings)?),
        })
    }

    /// Loads it, waits until each message has its `line_bytes` in the file, and ends it. bbq's ledger must then say that all were
    /// received and delivered, and nothing is queued. Returns the file, too, and how many messages it has.
    pub(super) fn measure(
        mut self,
        line_bytes: u64,
        load: impl FnOnce(SocketAddrV4) -> anyhow::Result<Load>,
    ) -> anyhow::Result<(Sample, PathBuf, u64)> {
        let (pid, address, output) = match &self {
            ToFile::Product(product) => (product.pid(), product.address(), product.output()),
            ToFile::Peer(peer) => (peer.pid(), peer.address(), peer.output()),
        };
        let output = output.to_owned();
        let meter = Meter::start(Some(pid))?;
        let load = load(address)?;
        let messages = load.operations;
        match &mut self {
            ToFile::Product(product) => drop(product.wait_delivered(messages, messages * line_bytes)?),
            ToFile::Peer(peer) => peer.wait_written(messages * line_bytes)?,
        }
        let mut sample = meter.stop(&load)?;
        let whole = match self {
            ToFile::Product(product) => product.stop()?,
            ToFile::Peer(peer) => peer.stop()?,
        };
        sample.set(Metric::ServerCpuWhole, whole.as_secs_f64());
        Ok((sample, output, messages))
    }
}
