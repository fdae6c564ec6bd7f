//! The options of a sender, with their defaults and ranges.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bbq_wire::limits::{BATCH_BODY_BYTES_TARGET, NAME_BYTES_MAX, TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use bbq_wire::session::{AckLevel, Token};

use crate::notice::NoticeHandler;
use crate::tls_options::TlsOptions;
use crate::{Reconnect, ServerAddress, StartError};

/// Holds some seconds of the log of a busy program.
const QUEUE_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Room for a few batches.
const QUEUE_BYTES_MIN: usize = 64 * 1024;
/// The cost of a batch is small when so many messages share it.
const BATCH_BYTES_DEFAULT: usize = 128 * 1024;
const BATCH_BYTES_MIN: usize = 1024;
/// Too short to notice in a log; at 50,000 messages a second a hundred of them share a batch.
const LINGER_DEFAULT: Duration = Duration::from_millis(2);
const LINGER_MAX: Duration = Duration::from_secs(60);
/// Losing a log message is better than waiting longer.
const BLOCK_DEFAULT: Duration = Duration::from_secs(1);
/// A server that acknowledges nothing for this time is broken, as no working disk needs this long.
const DELIVERY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// How long a program that exits waits for its last messages at most.
const CLOSE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// More than an hour of 250 KiB/s.
const SPOOL_BYTES_DEFAULT: u64 = 1024 * 1024 * 1024;
/// Room for a few segments with the largest message.
const SPOOL_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// What happens to a record for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// `send` waits for room: at most for this time, or without end if `None`. Then the record is dropped and counted.
    Block(Option<Duration>),
    /// The record is dropped and counted.
    DropNewest,
    /// The oldest records that are not being sent are dropped and counted; if there are none, the new record is.
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
    /// Only to servers on other machines, and only while batches shrink by a fifth or more.
    Auto,
}

/// Which servers get a record when several are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The first server that answers. The sender returns to the server named first when that is reachable again. A record whose
    /// acknowledgement was lost may be stored on two servers.
    #[default]
    Any,
    /// Every server, each with its own progress.
    All,
}

/// Options of a sender, set by a [`crate::SenderBuilder`].
#[derive(Clone)]
pub(crate) struct Options {
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
    pub(crate) tls: TlsOptions,
    pub(crate) token: Option<Token>,
    /// A token was set that cannot be one.
    pub(crate) has_wrong_token: bool,
    pub(crate) end_on_lasting_errors: bool,
    pub(crate) notice: Option<NoticeHandler>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("servers", &self.servers)
            .field("delivery", &self.delivery)
            .field("ack", &self.ack)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("on_full", &self.on_full)
            .field("spool", &self.spool)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
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
            tls: TlsOptions::default(),
            token: None,
            has_wrong_token: false,
            end_on_lasting_errors: false,
            notice: None,
        }
    }
}

impl Options {
    /// Fails if an option is outside its range.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        if self.servers.is_empty() {
            return Err(StartError::NoServers);
        }
        let twice = |(index, server): (usize, &ServerAddress)| self.servers[..index].contains(server);
        if self.delivery == Delivery::All
            && let Some((_, server)) = self.servers.iter().enumerate().find(|&pair| twice(pair))
        {
            return Err(StartError::NamedTwice { server: server.to_string() });
        }
        self.tls.check(&self.servers)?;
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
        if self.has_wrong_token {
            let range = format!("{TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters");
            return wrong("token", "not valid".to_owned(), range);
        }
        Ok(self.reconnect.check()?)
    }
}
