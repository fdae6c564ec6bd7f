//! How a sender sends: every option, its default and its range.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bbq_wire::limits::{BATCH_BODY_BYTES_TARGET, NAME_BYTES_MAX};
use bbq_wire::session::AckLevel;

use crate::{Reconnect, Sender, ServerAddress, StartError};

/// Some seconds of a busy program's log, and small beside the program.
const QUEUE_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Less is no queue: a few batches must find room.
const QUEUE_BYTES_MIN: usize = 64 * 1024;
/// Large enough that what a batch costs vanishes per message.
const BATCH_BYTES_DEFAULT: usize = 128 * 1024;
const BATCH_BYTES_MIN: usize = 1024;
/// Nobody who looks at a log notices; a hundred messages in this time share a batch at 50,000 a second.
const LINGER_DEFAULT: Duration = Duration::from_millis(2);
const LINGER_MAX: Duration = Duration::from_secs(60);
/// A program that waits longer for its log is better off without the message.
const BLOCK_DEFAULT: Duration = Duration::from_secs(1);
/// A server that reads but does not acknowledge for so long does not work; its disk may be slow, but not that slow.
const DELIVERY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// A program that ends waits at most so long for its last messages.
const CLOSE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// An hour's worth of 250 KiB/s.
const SPOOL_BYTES_DEFAULT: u64 = 1024 * 1024 * 1024;
/// Some segments, of which each has room for the largest message.
const SPOOL_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// What becomes of a record for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// `send` waits for room, at most so long or without end; then the record is dropped and counted.
    Block(Option<Duration>),
    /// The record is dropped and counted.
    DropNewest,
    /// The oldest records that are not on their way are dropped and counted; where there are none, the newest.
    DropOldest,
}

/// Whether batches are compressed with LZ4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compress {
    /// Never.
    #[default]
    Off,
    /// Always; a batch that would grow stays as it is.
    On,
    /// Where it pays: to servers on other machines, while batches shrink by a fifth or more.
    Auto,
}

/// Who gets a record when several servers are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The first server that answers; back to the one named first when it is there again. A record whose acknowledgement was
    /// lost with its server may be on both.
    #[default]
    Any,
    /// Every server, each with its own progress.
    All,
}

/// A change of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A server has welcomed the sender.
    Connected {
        /// Which.
        server: String,
    },
    /// A server does not answer, or broke off; it or the next is tried.
    Unreachable {
        /// Which.
        server: String,
        /// What happened.
        why: String,
    },
    /// A server will never take what this sender has.
    Ended {
        /// Which.
        server: String,
        /// Why.
        why: String,
    },
    /// What is not acknowledged is sent as another stream, with numbers from 1: the numbers of the present one cannot be trusted.
    NewStream {
        /// The server that gave reason to, or the spool.
        server: String,
        /// The reason.
        why: String,
    },
    /// A server has lost records that it had acknowledged; or the sender gives up records that no server would take.
    Lost {
        /// Which.
        server: String,
        /// How many.
        records: u64,
        /// How.
        why: String,
    },
}

/// What hears of notices.
pub(crate) type NoticeHandler = Arc<dyn Fn(&Notice) + Send + Sync>;

/// Options of a sender, and its start. Made by [`Sender::builder`].
#[derive(Clone)]
#[must_use = "nothing is sent before `start`"]
pub struct SenderBuilder {
    pub(crate) servers: Vec<ServerAddress>,
    pub(crate) delivery: Delivery,
    pub(crate) ack: AckLevel,
    pub(crate) queue_bytes_max: usize,
    pub(crate) on_full: OnFull,
    pub(crate) batch_bytes: usize,
    pub(crate) linger: Duration,
    pub(crate) compress: Compress,
    pub(crate) reconnect: Reconnect,
    pub(crate) delivery_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) spool: Option<PathBuf>,
    pub(crate) spool_bytes_max: u64,
    pub(crate) report_drops: bool,
    pub(crate) name: String,
    pub(crate) end_on_lasting_errors: bool,
    pub(crate) notice: Option<NoticeHandler>,
}

impl fmt::Debug for SenderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SenderBuilder")
            .field("servers", &self.servers)
            .field("delivery", &self.delivery)
            .field("ack", &self.ack)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("on_full", &self.on_full)
            .field("spool", &self.spool)
            .finish_non_exhaustive()
    }
}

impl Default for SenderBuilder {
    fn default() -> SenderBuilder {
        SenderBuilder {
            servers: Vec::new(),
            delivery: Delivery::Any,
            ack: AckLevel::Durable,
            queue_bytes_max: QUEUE_BYTES_DEFAULT,
            on_full: OnFull::Block(Some(BLOCK_DEFAULT)),
            batch_bytes: BATCH_BYTES_DEFAULT,
            linger: LINGER_DEFAULT,
            compress: Compress::Off,
            reconnect: Reconnect::default(),
            delivery_timeout: DELIVERY_TIMEOUT_DEFAULT,
            close_timeout: CLOSE_TIMEOUT_DEFAULT,
            spool: None,
            spool_bytes_max: SPOOL_BYTES_DEFAULT,
            report_drops: true,
            name: concat!("bbq-client ", env!("CARGO_PKG_VERSION")).to_owned(),
            end_on_lasting_errors: false,
            notice: None,
        }
    }
}

impl SenderBuilder {
    /// One more server; the one named first is preferred.
    pub fn server(mut self, server: ServerAddress) -> SenderBuilder {
        self.servers.push(server);
        self
    }

    /// More servers.
    pub fn servers(mut self, servers: impl IntoIterator<Item = ServerAddress>) -> SenderBuilder {
        self.servers.extend(servers);
        self
    }

    /// Who gets a record when several servers are named: [`Delivery::Any`] unless set.
    pub fn delivery(mut self, delivery: Delivery) -> SenderBuilder {
        self.delivery = delivery;
        self
    }

    /// What an acknowledgement means: [`AckLevel::Durable`], it is on the server's disk, unless set.
    pub fn ack(mut self, ack: AckLevel) -> SenderBuilder {
        self.ack = ack;
        self
    }

    /// Bytes that the queue takes at most, what is sent and not acknowledged included: 64 MiB unless set, at least 64 KiB.
    pub fn queue_bytes_max(mut self, bytes: usize) -> SenderBuilder {
        self.queue_bytes_max = bytes;
        self
    }

    /// What becomes of a record for which there is no room: it waits for a second unless set, and is then dropped.
    pub fn on_full(mut self, on_full: OnFull) -> SenderBuilder {
        self.on_full = on_full;
        self
    }

    /// A batch is sent when its records have so many bytes: 128 KiB unless set, 1 KiB to 256 KiB.
    pub fn batch_bytes(mut self, bytes: usize) -> SenderBuilder {
        self.batch_bytes = bytes;
        self
    }

    /// A record waits so long for company: about 2 ms unless set, at most a minute.
    pub fn linger(mut self, linger: Duration) -> SenderBuilder {
        self.linger = linger;
        self
    }

    /// Whether batches are compressed: [`Compress::Off`] unless set.
    pub fn compress(mut self, compress: Compress) -> SenderBuilder {
        self.compress = compress;
        self
    }

    /// How often and how fast servers that do not answer are tried again.
    pub fn reconnect(mut self, reconnect: Reconnect) -> SenderBuilder {
        self.reconnect = reconnect;
        self
    }

    /// A server that acknowledges nothing for so long although something waits is left: 30 s unless set, at least 1 s.
    pub fn delivery_timeout(mut self, timeout: Duration) -> SenderBuilder {
        self.delivery_timeout = timeout;
        self
    }

    /// Dropping the sender waits at most so long for what is not acknowledged: 5 s unless set.
    pub fn close_timeout(mut self, timeout: Duration) -> SenderBuilder {
        self.close_timeout = timeout;
        self
    }

    /// A directory of this sender's own. What `send` has taken then survives the process, though not a power failure, and is
    /// delivered by the next sender that is started with it. Each `send` costs a system call more.
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> SenderBuilder {
        self.spool = Some(directory.into());
        self
    }

    /// Bytes that the spool takes at most: 1 GiB unless set, at least 64 MiB.
    pub fn spool_bytes_max(mut self, bytes: u64) -> SenderBuilder {
        self.spool_bytes_max = bytes;
        self
    }

    /// Whether a record that says how many were dropped is sent once there is room again: yes, unless set.
    pub fn report_drops(mut self, report: bool) -> SenderBuilder {
        self.report_drops = report;
        self
    }

    /// Shown by the server, at most 255 bytes; says nothing about who is allowed what.
    pub fn name(mut self, name: impl Into<String>) -> SenderBuilder {
        self.name = name.into();
        self
    }

    /// Whether a server is given up when it fails in a way that does not go away by itself, as far as can be told: no permission
    /// for its socket, an address that cannot be one, another protocol, or the same refusal over and over. For programs that a person
    /// waits for; unless set, such a server is tried again, as any other.
    pub fn end_on_lasting_errors(mut self, end: bool) -> SenderBuilder {
        self.end_on_lasting_errors = end;
        self
    }

    /// Told on a thread of the sender's when a server answers that did not before, or the other way round. It must be quick.
    pub fn on_notice(mut self, handler: impl Fn(&Notice) + Send + Sync + 'static) -> SenderBuilder {
        self.notice = Some(Arc::new(handler));
        self
    }

    /// Starts the sender's threads, and returns before they have connected.
    ///
    /// # Errors
    /// An option outside its range, a spool that cannot be opened, or what the system refuses.
    pub fn start(self) -> Result<Sender, StartError> {
        self.check()?;
        Sender::start(self)
    }

    fn check(&self) -> Result<(), StartError> {
        if self.servers.is_empty() {
            return Err(StartError::NoServers);
        }
        let twice = |(index, server): (usize, &ServerAddress)| self.servers[..index].contains(server);
        if self.delivery == Delivery::All
            && let Some((_, server)) = self.servers.iter().enumerate().find(|&pair| twice(pair))
        {
            return Err(StartError::NamedTwice { server: server.to_string() });
        }
        let wrong = |option, value: String, range: String| Err(StartError::Option { option, value, range });
        if self.queue_bytes_max < QUEUE_BYTES_MIN {
            return wrong(
                "queue_bytes_max",
                self.queue_bytes_max.to_string(),
                format!("{QUEUE_BYTES_MIN} or more"),
            );
        }
        if !(BATCH_BYTES_MIN..=BATCH_BODY_BYTES_TARGET).contains(&self.batch_bytes) {
            let range = format!("{BATCH_BYTES_MIN} to {BATCH_BODY_BYTES_TARGET}");
            return wrong("batch_bytes", self.batch_bytes.to_string(), range);
        }
        if self.linger > LINGER_MAX {
            return wrong("linger", format!("{:?}", self.linger), format!("{LINGER_MAX:?} at most"));
        }
        if self.delivery_timeout < Duration::from_secs(1) {
            return wrong(
                "delivery_timeout",
                format!("{:?}", self.delivery_timeout),
                "1 s or more".to_owned(),
            );
        }
        if self.spool_bytes_max < SPOOL_BYTES_MIN {
            return wrong(
                "spool_bytes_max",
                self.spool_bytes_max.to_string(),
                format!("{SPOOL_BYTES_MIN} or more"),
            );
        }
        if self.name.len() > NAME_BYTES_MAX {
            return wrong("name", format!("{} bytes", self.name.len()), format!("{NAME_BYTES_MAX} at most"));
        }
        Ok(self.reconnect.check()?)
    }
}
