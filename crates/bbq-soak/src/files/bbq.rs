//! A server that reads the files, and hands on to another one with a file sink.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::kind::Kind;
use super::tool::Tool;
use crate::admin;
use crate::home::Home;
use crate::output::Output;
use crate::server::Server;

/// A small one, so that kills also meet a change of segments.
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
/// More than what is written while the server behind it is away.
const SPOOL_BYTES_MAX: u64 = 1024 * 1024 * 1024;

pub(super) struct Bbq {
    edge: Server,
    centre: Server,
    output: Output,
}

impl Bbq {
    /// `ports`: the listeners and admins of both.
    pub(super) fn new(program: &Path, directory: &Path, logs: &Path, ports: [u16; 4]) -> Result<Bbq> {
        let output = directory.join("centre/out/messages.log");
        let server = |name: &str, admin: u16, what: String| -> Result<Server> {
            let own = directory.join(name);
            fs::create_dir_all(&own)?;
            let home = Home {
                config: own.join("bbq.toml"),
                data: own.join("data"),
                log: own.join("server.log"),
                admin: ([127, 0, 0, 1], admin).into(),
            };
            let rest = format!(
                "data = \"{}\"\nadmin = \"{}\"\n[spool]\nsegment_bytes = {SEGMENT_BYTES}\nbytes_max = {SPOOL_BYTES_MAX}\n",
                home.data.display(),
                home.admin
            );
            let server = Server::new(program.to_owned(), home);
            server.configure(&(what + &rest))?;
            Ok(server)
        };
        let reads = Kind::ALL.map(|kind| {
            let (name, logs) = (kind.name(), logs.display());
            format!("\"file:{logs}/{name}/*.log*?name={name}\"")
        });
        let address = format!("127.0.0.1:{}", ports[0]);
        // Without a listener of its own, it would take the usual address.
        let listen = format!("listen = [\"bbq+tcp://127.0.0.1:{}\"]", ports[3]);
        let edge = format!("{listen}\nread = [{}]\nsink = [\"bbq://{address}\"]\n", reads.join(", "));
        // One lane: a link gives the order of a stream up where unread messages of it lie in several lanes of the next server.
        let centre = format!(
            "workers = 1\nlisten = [\"bbq+tcp://{address}\"]\nsink = [\"file:{}?rotate=never\"]\n",
            output.display()
        );
        Ok(Bbq {
            edge: server("edge", ports[1], edge)?,
            centre: server("centre", ports[2], centre)?,
            output: Output::new(output),
        })
    }

    /// Whether the edge has read at least so many lines, and all that it knows of.
    fn has_read(&self, lines: u64) -> bool {
        // It is not ready at first.
        let Ok(status) = admin::status(self.edge.home().admin) else { return false };
        of_readers(&status, "received") >= lines && of_readers(&status, "behind_bytes") == 0
    }
}

/// The sum of a number of all readers.
fn of_readers(status: &Value, field: &str) -> u64 {
    status["readers"].as_array().into_iter().flatten().map(|reader| admin::sum(&reader[field])).sum()
}

impl Tool for Bbq {
    fn name(&self) -> &str {
        "bbq"
    }

    fn start(&mut self) -> Result<()> {
        if self.edge.pids().is_empty() {
            self.edge.spawn()?;
        }
        self.starts_server()
    }

    fn kill_reader(&mut self) -> Result<()> {
        self.edge.kill();
        Ok(())
    }

    fn kill_server(&mut self) -> Result<()> {
        self.centre.kill();
        Ok(())
    }

    fn starts_server(&mut self) -> Result<()> {
        if self.centre.pids().is_empty() {
            self.centre.spawn()?;
        }
        Ok(())
    }

    fn pids(&self) -> Vec<u32> {
        self.edge.pids()
    }

    fn is_quiet(&mut self, lines: u64) -> Result<bool> {
        let is_quiet = |server: &Server| {
            admin::status(server.home().admin).is_ok_and(|status| admin::check_quiet(&status).is_ok())
        };
        Ok(self.has_read(lines) && is_quiet(&self.edge) && is_quiet(&self.centre))
    }

    /// It does not read at places that the kernel keeps, and keeps deleted files open for a while.
    fn has_read_deleted(&self, lines: u64, _below: &Path) -> bool {
        self.has_read(lines)
    }

    /// Without what changes although nothing goes on.
    fn state(&self) -> String {
        let show = |server: &Server| match admin::status(server.home().admin) {
            Ok(status) => {
                let of = |field| of_readers(&status, field);
                let (received, behind) = (of("received"), of("behind_bytes"));
                format!("{received} lines read, {behind} bytes behind, ledger {}", status["ledger"])
            }
            Err(error) => format!("{error}: see {}", server.home().log.display()),
        };
        format!("edge: {}; centre: {}", show(&self.edge), show(&self.centre))
    }

    fn stop(&mut self) -> Result<()> {
        self.edge.stop().context("the edge")?;
        self.centre.stop().context("the centre")
    }

    fn read(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.output.read(see)
    }
}

impl Drop for Bbq {
    fn drop(&mut self) {
        self.edge.kill();
        self.centre.kill();
    }
}
