//! The builder of a sender.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bbq_wire::session::{AckLevel, Token};

use crate::options::Options;
use crate::{Compress, Delivery, Notice, OnFull, Reconnect, Sender, ServerAddress, StartError};

/// Sets the options of a sender and starts it. Made by [`Sender::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is sent before `start`"]
pub struct SenderBuilder {
    pub(crate) options: Options,
}

impl Sender {
    /// A builder with the default options.
    pub fn builder() -> SenderBuilder {
        SenderBuilder::default()
    }
}

impl SenderBuilder {
    /// Adds a server. The server named first is preferred.
    pub fn server(mut self, server: ServerAddress) -> SenderBuilder {
        self.options.servers.push(server);
        self
    }

    /// Adds servers.
    pub fn servers(mut self, servers: impl IntoIterator<Item = ServerAddress>) -> SenderBuilder {
        self.options.servers.extend(servers);
        self
    }

    /// Which servers get a record when several are named: [`Delivery::Any`] unless set.
    pub fn delivery(mut self, delivery: Delivery) -> SenderBuilder {
        self.options.delivery = delivery;
        self
    }

    /// What an acknowledgement means. Unless set, [`AckLevel::Durable`]: the record is on the server's disk.
    pub fn ack(mut self, ack: AckLevel) -> SenderBuilder {
        self.options.ack = ack;
        self
    }

    /// Maximum memory of the queue in bytes, including records that are sent and not acknowledged: 64 MiB unless set, at least 64 KiB.
    pub fn queue_bytes_max(mut self, bytes: usize) -> SenderBuilder {
        self.options.queue_bytes_max = bytes;
        self
    }

    /// What happens to a record for which there is no room. Unless set, `send` waits for a second and then drops the record.
    pub fn on_full(mut self, on_full: OnFull) -> SenderBuilder {
        self.options.on_full = on_full;
        self
    }

    /// A batch is sent when its records reach this size in bytes: 128 KiB unless set, 1 KiB to 256 KiB.
    pub fn batch_bytes(mut self, bytes: usize) -> SenderBuilder {
        self.options.batch_bytes = bytes;
        self
    }

    /// How long a record waits for others to share its batch: about 2 ms unless set, at most a minute.
    pub fn linger(mut self, linger: Duration) -> SenderBuilder {
        self.options.linger = linger;
        self
    }

    /// Whether batches are compressed: [`Compress::Off`] unless set.
    pub fn compress(mut self, compress: Compress) -> SenderBuilder {
        self.options.compress = compress;
        self
    }

    /// How often and how fast the sender connects again to servers that do not answer.
    pub fn reconnect(mut self, reconnect: Reconnect) -> SenderBuilder {
        self.options.reconnect = reconnect;
        self
    }

    /// The sender leaves a server that acknowledges nothing for this time although records wait: 30 s unless set, at least 1 s.
    pub fn delivery_timeout(mut self, timeout: Duration) -> SenderBuilder {
        self.options.delivery_timeout = timeout;
        self
    }

    /// How long dropping the sender waits for acknowledgements at most: 5 s unless set.
    pub fn close_timeout(mut self, timeout: Duration) -> SenderBuilder {
        self.options.close_timeout = timeout;
        self
    }

    /// A directory of this sender's own. Records that `send` has taken then survive the process, though not a power failure, and the next
    /// sender that is started with the directory delivers them. Each `send` then costs a system call.
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> SenderBuilder {
        self.options.spool = Some(directory.into());
        self
    }

    /// Maximum size of the spool in bytes: 1 GiB unless set, at least 64 MiB.
    pub fn spool_bytes_max(mut self, bytes: u64) -> SenderBuilder {
        self.options.spool_bytes_max = bytes;
        self
    }

    /// Whether the sender, once there is room again, sends a record that says how many were dropped: yes, unless set.
    pub fn report_drops(mut self, report: bool) -> SenderBuilder {
        self.options.report_drops = report;
        self
    }

    /// A name that the server shows, at most 255 bytes. It grants nothing.
    pub fn name(mut self, name: impl Into<String>) -> SenderBuilder {
        self.options.name = name.into();
        self
    }

    /// What the sender shows to servers that ask for a token: 16 to 512 visible ASCII characters. All servers are sent the same. Without
    /// TLS, everybody on the way can read it.
    pub fn token(mut self, token: impl AsRef<str>) -> SenderBuilder {
        self.options.token = Token::new(token.as_ref());
        self.options.has_wrong_token = self.options.token.is_none();
        self
    }

    /// PEM file with the certificates of the CAs that issue those of servers reached by TLS (`bbq+tls://`). Unless set, the CAs that the
    /// system trusts: where OpenSSL has them, or in `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    ///
    /// This file and those of the certificate and the key are read when the sender is started, and again before a connection if they have
    /// changed: files that are renewed need no restart. If they cannot be used then, connections fail, with the reason in a notice, and
    /// are tried again. The system's CAs are read once, when the sender is started.
    pub fn tls_ca(mut self, file: impl Into<PathBuf>) -> SenderBuilder {
        self.options.tls.ca = Some(file.into());
        self
    }

    /// PEM file with the certificate that the sender shows to servers that ask for one, followed by those between it and its CA. Needs
    /// [`SenderBuilder::tls_key`].
    pub fn tls_cert(mut self, file: impl Into<PathBuf>) -> SenderBuilder {
        self.options.tls.cert = Some(file.into());
        self
    }

    /// PEM file with the key of [`SenderBuilder::tls_cert`], which may be the same file. The key must not be encrypted.
    pub fn tls_key(mut self, file: impl Into<PathBuf>) -> SenderBuilder {
        self.options.tls.key = Some(file.into());
        self
    }

    /// The name that must be in the certificate of a server reached by TLS. Unless set, the host of its address.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> SenderBuilder {
        self.options.tls.server_name = Some(name.into());
        self
    }

    /// Whether the sender gives a server up after an error that probably lasts: no permission for its socket, an impossible address,
    /// another protocol, a certificate or a token that is refused, or the same refusal over and over. Meant for programs that a person waits for. Unless set, the sender tries
    /// such a server again, as any other.
    pub fn end_on_lasting_errors(mut self, end: bool) -> SenderBuilder {
        self.options.end_on_lasting_errors = end;
        self
    }

    /// Sets a function that a thread of the sender calls with each [`Notice`]. It must return quickly.
    pub fn on_notice(mut self, handler: impl Fn(&Notice) + Send + Sync + 'static) -> SenderBuilder {
        self.options.notice = Some(Arc::new(handler));
        self
    }

    /// Starts the sender's threads, and returns before they have connected.
    ///
    /// # Errors
    /// An option is outside its range, a file for TLS cannot be used, the spool cannot be opened, or the system refuses a thread or random numbers.
    pub fn start(self) -> Result<Sender, StartError> {
        self.options.check()?;
        Sender::start(self.options)
    }
}
