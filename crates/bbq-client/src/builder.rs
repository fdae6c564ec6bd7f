//! Sets a sender's options, and starts it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bbq_wire::session::AckLevel;

use crate::options::Options;
use crate::{Compress, Delivery, Notice, OnFull, Reconnect, Sender, ServerAddress, StartError};

/// Options of a sender, and its start. Made by [`Sender::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is sent before `start`"]
pub struct SenderBuilder {
    pub(crate) options: Options,
}

impl Sender {
    /// A sender to be, with the defaults.
    pub fn builder() -> SenderBuilder {
        SenderBuilder::default()
    }
}

impl SenderBuilder {
    /// One more server; the one named first is preferred.
    pub fn server(mut self, server: ServerAddress) -> SenderBuilder {
        self.options.servers.push(server);
        self
    }

    /// More servers.
    pub fn servers(mut self, servers: impl IntoIterator<Item = ServerAddress>) -> SenderBuilder {
        self.options.servers.extend(servers);
        self
    }

    /// Who gets a record when several servers are named: [`Delivery::Any`] unless set.
    pub fn delivery(mut self, delivery: Delivery) -> SenderBuilder {
        self.options.delivery = delivery;
        self
    }

    /// What an acknowledgement means: [`AckLevel::Durable`], it is on the server's disk, unless set.
    pub fn ack(mut self, ack: AckLevel) -> SenderBuilder {
        self.options.ack = ack;
        self
    }

    /// Bytes that the queue takes at most, what is sent and not acknowledged included: 64 MiB unless set, at least 64 KiB.
    pub fn queue_bytes_max(mut self, bytes: usize) -> SenderBuilder {
        self.options.queue_bytes_max = bytes;
        self
    }

    /// What becomes of a record for which there is no room: it waits for a second unless set, and is then dropped.
    pub fn on_full(mut self, on_full: OnFull) -> SenderBuilder {
        self.options.on_full = on_full;
        self
    }

    /// A batch is sent when its records have so many bytes: 128 KiB unless set, 1 KiB to 256 KiB.
    pub fn batch_bytes(mut self, bytes: usize) -> SenderBuilder {
        self.options.batch_bytes = bytes;
        self
    }

    /// A record waits so long for company: about 2 ms unless set, at most a minute.
    pub fn linger(mut self, linger: Duration) -> SenderBuilder {
        self.options.linger = linger;
        self
    }

    /// Whether batches are compressed: [`Compress::Off`] unless set.
    pub fn compress(mut self, compress: Compress) -> SenderBuilder {
        self.options.compress = compress;
        self
    }

    /// How often and how fast servers that do not answer are tried again.
    pub fn reconnect(mut self, reconnect: Reconnect) -> SenderBuilder {
        self.options.reconnect = reconnect;
        self
    }

    /// A server that acknowledges nothing for so long although something waits is left: 30 s unless set, at least 1 s.
    pub fn delivery_timeout(mut self, timeout: Duration) -> SenderBuilder {
        self.options.delivery_timeout = timeout;
        self
    }

    /// Dropping the sender waits at most so long for what is not acknowledged: 5 s unless set.
    pub fn close_timeout(mut self, timeout: Duration) -> SenderBuilder {
        self.options.close_timeout = timeout;
        self
    }

    /// A directory of this sender's own. What `send` has taken then survives the process, though not a power failure, and is
    /// delivered by the next sender that is started with it. Each `send` costs a system call more.
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> SenderBuilder {
        self.options.spool = Some(directory.into());
        self
    }

    /// Bytes that the spool takes at most: 1 GiB unless set, at least 64 MiB.
    pub fn spool_bytes_max(mut self, bytes: u64) -> SenderBuilder {
        self.options.spool_bytes_max = bytes;
        self
    }

    /// Whether a record that says how many were dropped is sent once there is room again: yes, unless set.
    pub fn report_drops(mut self, report: bool) -> SenderBuilder {
        self.options.report_drops = report;
        self
    }

    /// Shown by the server, at most 255 bytes; says nothing about who is allowed what.
    pub fn name(mut self, name: impl Into<String>) -> SenderBuilder {
        self.options.name = name.into();
        self
    }

    /// Whether a server is given up when it fails in a way that does not go away by itself, as far as can be told: no permission
    /// for its socket, an address that cannot be one, another protocol, or the same refusal over and over. For programs that a person
    /// waits for; unless set, such a server is tried again, as any other.
    pub fn end_on_lasting_errors(mut self, end: bool) -> SenderBuilder {
        self.options.end_on_lasting_errors = end;
        self
    }

    /// Told on a thread of the sender's when a server answers that did not before, or the other way round. It must be quick.
    pub fn on_notice(mut self, handler: impl Fn(&Notice) + Send + Sync + 'static) -> SenderBuilder {
        self.options.notice = Some(Arc::new(handler));
        self
    }

    /// Starts the sender's threads, and returns before they have connected.
    ///
    /// # Errors
    /// An option outside its range, a spool that cannot be opened, or what the system refuses.
    pub fn start(self) -> Result<Sender, StartError> {
        self.options.check()?;
        Sender::start(self.options)
    }
}
