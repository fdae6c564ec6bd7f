//! The class `bbq.Sender`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bbq_client::{Compress, OnFull, SendError, SenderBuilder, ServerAddress};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::message::Message;
use crate::notices::Notices;
use crate::process_sender::ProcessSender;
use crate::queue_credit::QueueCredit;
use crate::{errors, options, values, waiting};

// The defaults of bbq-client, which `QueueCredit` needs to know.
const QUEUE_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
const BATCH_BYTES_DEFAULT: usize = 128 * 1024;
/// Messages that `send_many` collects before it releases the interpreter, so that a release costs little per message.
const GATHERED_MAX: usize = 256;

/// Sends messages as one numbered stream, from any number of threads. The stub file, bbq/_native.pyi, explains each argument.
#[pyclass(frozen, weakref, module = "bbq")]
pub(crate) struct Sender {
    inner: Arc<ProcessSender>,
    /// For another sender with the same options.
    builder: SenderBuilder,
    on_notice: Option<Py<PyAny>>,
    close_timeout: Duration,
    waits: MayWait,
    has_spool: bool,
    /// The servers, for `repr`.
    shown: String,
}

#[pymethods]
impl Sender {
    #[new]
    #[pyo3(signature = (servers, *, ack="durable", delivery="any", queue_bytes_max=QUEUE_BYTES_DEFAULT, on_full="block",
        block_timeout=Some(1.0), batch_bytes=BATCH_BYTES_DEFAULT, linger=0.002,
        compress=Compress::Off, reconnect=None, delivery_timeout=None, close_timeout=5.0,
        spool=None, spool_bytes_max=None, report_drops=true, name=None, on_notice=None,
        tls_ca=None, tls_cert=None, tls_key=None, tls_server_name=None, token=None))]
    #[expect(clippy::too_many_arguments, reason = "Python has keywords")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = options::servers)] servers: Vec<ServerAddress>,
        ack: &str,
        delivery: &str,
        #[pyo3(from_py_with = options::queue_bytes_max)] queue_bytes_max: usize,
        on_full: &str,
        block_timeout: Option<f64>,
        #[pyo3(from_py_with = options::batch_bytes)] batch_bytes: usize,
        linger: f64,
        #[pyo3(from_py_with = options::compress)] compress: Compress,
        reconnect: Option<&Bound<'_, PyAny>>,
        delivery_timeout: Option<f64>,
        close_timeout: f64,
        spool: Option<PathBuf>,
        #[pyo3(from_py_with = options::spool_bytes_max)] spool_bytes_max: Option<u64>,
        report_drops: bool,
        name: Option<String>,
        on_notice: Option<Py<PyAny>>,
        tls_ca: Option<PathBuf>,
        tls_cert: Option<PathBuf>,
        tls_key: Option<PathBuf>,
        tls_server_name: Option<String>,
        token: Option<String>,
    ) -> PyResult<Sender> {
        let shown = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let on_full = options::on_full(on_full, block_timeout)?;
        let close_timeout = options::seconds("close_timeout", close_timeout)?;
        let has_spool = spool.is_some();
        let mut builder = bbq_client::Sender::builder()
            .servers(servers)
            .ack(options::ack(ack)?)
            .delivery(options::delivery(delivery)?)
            .queue_bytes_max(queue_bytes_max)
            .on_full(on_full)
            .batch_bytes(batch_bytes)
            .linger(options::seconds("linger", linger)?)
            .compress(compress)
            .close_timeout(close_timeout)
            .report_drops(report_drops)
            .name(name.unwrap_or_else(|| concat!("bbq-python ", env!("CARGO_PKG_VERSION")).to_owned()));
        if let Some(reconnect) = reconnect {
            builder = builder.reconnect(values::reconnect_of(reconnect)?);
        }
        if let Some(timeout) = delivery_timeout {
            builder = builder.delivery_timeout(options::seconds("delivery_timeout", timeout)?);
        }
        if let Some(directory) = spool {
            builder = builder.spool(directory);
        }
        if let Some(bytes) = spool_bytes_max {
            builder = builder.spool_bytes_max(bytes);
        }
        if let Some(token) = token {
            builder = builder.token(token);
        }
        builder = options::with_tls(builder, tls_ca, tls_cert, tls_key, tls_server_name);
        // The memory for compression has no bound that is known here.
        let is_predictable = !has_spool && compress == Compress::Off;
        let waits = match on_full {
            OnFull::Block(_) if is_predictable => {
                MayWait::WhenFull(QueueCredit::new(queue_bytes_max, batch_bytes))
            }
            OnFull::DropNewest | OnFull::DropOldest if !has_spool => MayWait::Never,
            _ => MayWait::Always,
        };
        let inner = start(py, &builder, close_timeout, on_notice.as_ref())?;
        Ok(Sender { inner, builder, on_notice, close_timeout, waits, has_spool, shown })
    }

    /// Copies a message into the queue and returns.
    #[pyo3(signature = (message, /))]
    fn send(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let sender = self.inner.sender()?;
        let message = Message::of(message)?;
        let bytes = message.bytes();
        let may_wait = match &self.waits {
            MayWait::Never => false,
            MayWait::WhenFull(credit) => !credit.take(bytes.len(), || sender.counters()),
            MayWait::Always => true,
        };
        if may_wait {
            return waiting::send_all(py, sender, &[message]).1;
        }
        sender.send(bytes).map_err(|error| errors::sending(&error))
    }

    /// Takes a message if that needs no waiting. Returns whether it did.
    #[pyo3(signature = (message, /))]
    fn try_send(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<bool> {
        let sender = self.inner.sender()?;
        let message = Message::of(message)?;
        let bytes = message.bytes();
        // The disk of a spool may be slow.
        let sent = if self.has_spool { py.detach(|| sender.try_send(bytes)) } else { sender.try_send(bytes) };
        match sent {
            Ok(()) => Ok(true),
            Err(SendError::Full { .. } | SendError::SpoolFull { .. }) => Ok(false),
            Err(error) => Err(errors::sending(&error)),
        }
    }

    /// Takes messages until one is refused. Returns how many; an exception has the number in its attribute `taken`.
    #[pyo3(signature = (messages, /))]
    fn send_many(&self, py: Python<'_>, messages: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut taken = 0;
        self.take_all(py, messages, &mut taken).inspect_err(|error| {
            // An exception that allows no attributes is raised without it.
            let _set = error.value(py).setattr("taken", taken);
        })?;
        Ok(taken)
    }

    /// Waits until every message taken before is acknowledged.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.inner.flush(py, timeout.map(|most| options::seconds("timeout", most)).transpose()?)
    }

    /// Flushes and ends the sender. Closing again changes nothing.
    #[pyo3(signature = (timeout=None))]
    fn close<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let timeout = timeout.map(|most| options::seconds("timeout", most)).transpose()?;
        values::counters(py, &self.inner.close(py, timeout)?)
    }

    /// What the sender has done so far.
    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sender = self.inner.sender()?;
        values::counters(py, &py.detach(|| sender.counters()))
    }

    /// The progress of each server.
    #[getter]
    fn servers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let sender = self.inner.sender()?;
        let servers = py.detach(|| sender.servers());
        let servers: Vec<_> =
            servers.iter().map(|server| values::progress(py, server)).collect::<PyResult<_>>()?;
        PyList::new(py, servers)
    }

    /// Number of the last message taken.
    #[getter]
    fn last_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        let sender = self.inner.sender()?;
        Ok(py.detach(|| sender.last_sequence()))
    }

    /// The reconnect parameters as they were set.
    #[getter]
    fn reconnect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sender = self.inner.sender()?;
        values::reconnect(py, &py.detach(|| sender.reconnect()))
    }

    #[setter]
    fn set_reconnect(&self, py: Python<'_>, reconnect: &Bound<'_, PyAny>) -> PyResult<()> {
        let sender = self.inner.sender()?;
        let reconnect = values::reconnect_of(reconnect)?;
        py.detach(|| sender.set_reconnect(reconnect)).map_err(|error| errors::option(error.to_string()))
    }

    /// Whether the sender belongs to a parent of this process.
    #[getter]
    fn forked(&self) -> bool {
        !self.inner.is_own_process()
    }

    /// Whether the sender was closed in this process.
    #[getter]
    fn closed(&self) -> bool {
        self.inner.is_own_process() && self.inner.is_closed()
    }

    /// Starts another sender with the same options, for a forked child.
    fn start_again(&self, py: Python<'_>) -> PyResult<Sender> {
        if self.has_spool && !self.inner.is_own_process() {
            return Err(errors::forked_with_spool());
        }
        let on_notice = self.on_notice.as_ref().map(|handler| handler.clone_ref(py));
        let inner = start(py, &self.builder, self.close_timeout, on_notice.as_ref())?;
        Ok(Sender {
            inner,
            builder: self.builder.clone(),
            on_notice,
            close_timeout: self.close_timeout,
            waits: self.waits.of_empty_sender(),
            has_spool: self.has_spool,
            shown: self.shown.clone(),
        })
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// A `bbq.Error` of the close does not replace an exception of the `with` block.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyType>>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match self.inner.close(py, None) {
            Err(error) if kind.is_none() || !errors::is_bbq_error(py, &error) => Err(error),
            _ => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<bbq.Sender to {}>", self.shown)
    }
}

impl Sender {
    fn take_all(&self, py: Python<'_>, messages: &Bound<'_, PyAny>, taken: &mut u64) -> PyResult<()> {
        let sender = self.inner.sender()?;
        let mut messages = messages.try_iter()?;
        loop {
            let mut failed = Ok(());
            let objects: Vec<_> = (messages.by_ref().take(GATHERED_MAX))
                .map_while(|object| object.map_err(|error| failed = Err(error)).ok())
                .collect();
            let is_last = objects.len() < GATHERED_MAX;
            let gathered: Vec<_> = (objects.iter())
                .map_while(|object| Message::of(object).map_err(|error| failed = Err(error)).ok())
                .collect();
            let (count, sent) = self.take(py, sender, &gathered);
            *taken += count;
            sent?;
            failed?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn take(
        &self,
        py: Python<'_>,
        sender: &bbq_client::Sender,
        messages: &[Message<'_>],
    ) -> (u64, PyResult<()>) {
        if !matches!(self.waits, MayWait::Never) {
            return waiting::send_all(py, sender, messages);
        }
        let (taken, sent) = sender.send_all(messages.iter().map(Message::bytes));
        (taken, sent.map_err(|error| errors::sending(&error)))
    }
}

/// Whether a `send` may wait, and so must release the interpreter.
enum MayWait {
    /// It drops a message instead.
    Never,
    /// Only for room in the queue.
    WhenFull(QueueCredit),
    /// For the spool's disk, or for room that cannot be predicted.
    Always,
}

impl MayWait {
    /// The same for another sender, whose queue is empty.
    fn of_empty_sender(&self) -> MayWait {
        match self {
            MayWait::Never => MayWait::Never,
            MayWait::WhenFull(credit) => MayWait::WhenFull(credit.of_empty_queue()),
            MayWait::Always => MayWait::Always,
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.inner.abandon();
    }
}

fn start(
    py: Python<'_>,
    builder: &SenderBuilder,
    close_timeout: Duration,
    on_notice: Option<&Py<PyAny>>,
) -> PyResult<Arc<ProcessSender>> {
    let mut builder = builder.clone();
    let notices = on_notice.map(|handler| Arc::new(Notices::new(handler.clone_ref(py))));
    if let Some(notices) = &notices {
        let notices = Arc::clone(notices);
        builder = builder.on_notice(move |notice| notices.call(notice));
    }
    let sender = py.detach(|| builder.start()).map_err(|error| errors::starting(&error))?;
    let inner = ProcessSender::new(sender, close_timeout, notices);
    py.import("bbq._exit")?.call_method0("watch")?;
    Ok(inner)
}
