//! A backend of the `log` crate.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use log::kv::{self, Key, VisitSource};
use log::{LevelFilter, Metadata, Record, SetLoggerError};

use super::line::{Line, Value, with_line};
use super::{FlushGuard, Format, is_own, sender_for_logs};
use crate::{Sender, SenderBuilder};

/// Maximum wait of `log::logger().flush()`.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends what is logged with the macros of the `log` crate, a line for each record.
///
/// ```no_run
/// use bbq_client::LogBackend;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let sender = LogBackend::sender().server("bbq://127.0.0.1:7700".parse()?).start()?;
///     let _guard = LogBackend::new(sender).install()?;
///     log::info!("something happened");
///     Ok(())
/// }
/// ```
///
/// Logging never waits longer than the sender's [`crate::OnFull`] says, and never fails; dropped records are in the sender's counters. A
/// forked child sends nothing, as the sender belongs to the parent.
#[derive(Debug)]
pub struct LogBackend {
    sender: Arc<Sender>,
    level: LevelFilter,
    format: Format,
}

impl LogBackend {
    /// A builder whose default suits a log: a record for which there is no room is dropped and counted ([`crate::OnFull::DropNewest`]).
    pub fn sender() -> SenderBuilder {
        sender_for_logs()
    }

    /// Uses a sender, which others may use, too.
    #[must_use]
    pub fn new(sender: impl Into<Arc<Sender>>) -> LogBackend {
        LogBackend { sender: sender.into(), level: LevelFilter::Info, format: Format::Text }
    }

    /// The least important records that are sent: [`LevelFilter::Info`] unless set.
    #[must_use]
    pub fn level(mut self, level: LevelFilter) -> LogBackend {
        self.level = level;
        self
    }

    /// The format of a line: [`Format::Text`] unless set.
    #[must_use]
    pub fn format(mut self, format: Format) -> LogBackend {
        self.format = format;
        self
    }

    /// A guard, for a backend that is not installed but used by another one.
    pub fn guard(&self) -> FlushGuard {
        FlushGuard::new(&self.sender)
    }

    /// Installs the backend for the whole program. Keep the guard in `main`.
    ///
    /// # Errors
    /// The program has a backend already.
    pub fn install(self) -> Result<FlushGuard, SetLoggerError> {
        let (guard, level) = (self.guard(), self.level);
        log::set_boxed_logger(Box::new(self))?;
        log::set_max_level(level);
        Ok(guard)
    }
}

impl log::Log for LogBackend {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= self.level && !is_own(metadata.target())
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        with_line(self.format, |line| {
            line.set_message(*record.args());
            // The visitor returns no errors.
            let _visited = record.key_values().visit(&mut Fields(line));
            let line = line.finish(SystemTime::now(), record.level().as_str(), record.target());
            // A refused record is counted.
            let _taken = self.sender.send(line);
        });
    }

    fn flush(&self) {
        // Lost records are counted.
        let _outcome = self.sender.flush(FLUSH_TIMEOUT);
    }
}

struct Fields<'a>(&'a mut Line);

impl<'kvs> VisitSource<'kvs> for Fields<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: kv::Value<'kvs>) -> Result<(), kv::Error> {
        let is_plain = value.to_bool().is_some()
            || value.to_i64().is_some()
            || value.to_u64().is_some()
            || value.to_f64().is_some_and(f64::is_finite);
        match value.to_borrowed_str() {
            Some(text) => self.0.add_field(key.as_str(), &Value::Text(text)),
            None if is_plain => self.0.add_field(key.as_str(), &Value::Plain(&value)),
            None => self.0.add_field(key.as_str(), &Value::Formatted(format_args!("{value}"))),
        }
        Ok(())
    }
}
