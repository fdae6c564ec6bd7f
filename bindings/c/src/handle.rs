//! `bbq_sender`: a sender that each process starts for itself.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bbq_client::{SendError, Sender, SenderBuilder};

use crate::at_exit::AtExit;
use crate::failure::{Failure, Status};
use crate::options::Options;
use crate::pointer::null;
use crate::process::{PerProcess, count_forks};
use crate::reconnect::Reconnect;
use crate::{at_exit, boundary, pointer};

/// Sends messages as one stream, from any number of threads.
pub struct Handle {
    builder: SenderBuilder,
    has_spool: bool,
    close_timeout: Duration,
    closed: AtomicBool,
    own: PerProcess<Result<Sender, Failure>>,
}

impl Handle {
    fn start(options: &Options) -> Result<Handle, Failure> {
        count_forks()?;
        let handle = Handle {
            builder: options.builder.clone(),
            has_spool: options.has_spool,
            close_timeout: options.close_timeout,
            closed: AtomicBool::new(false),
            own: PerProcess::new(),
        };
        let started = handle.own.get_or_make(|| handle.builder.clone().start().map_err(Failure::from));
        started.as_ref().map_err(Failure::clone)?;
        Ok(handle)
    }

    /// This process's sender.
    #[inline]
    pub(crate) fn sender(&self) -> Result<&Sender, Failure> {
        self.own.get_or_make(|| self.start_in_child()).as_ref().map_err(Failure::clone)
    }

    /// The parent sends what it has taken; messages of the child need a stream and threads of their own.
    fn start_in_child(&self) -> Result<Sender, Failure> {
        if self.is_closed() {
            return Err(SendError::Closed.into());
        }
        if self.has_spool {
            let text = "the sender's spool belongs to the parent process: start a sender with a spool of its own after the fork";
            return Err(Failure::Other(Status::Forked, text.to_owned()));
        }
        let sender = self.builder.clone().start()?;
        at_exit::add(self);
        Ok(sender)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Flushes this process's sender. A child that has sent nothing starts none for that.
    fn flush(&self, timeout: Duration) -> Result<(), Failure> {
        match self.own.get() {
            Some(Ok(sender)) => Ok(sender.flush(timeout)?),
            Some(Err(failure)) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    fn has_nothing_queued(&self) -> bool {
        matches!(self.own.get(), Some(Ok(sender)) if sender.counters().queued == 0)
    }

    fn close(&self, timeout: Duration) -> Result<(), Failure> {
        self.closed.store(true, Ordering::Relaxed);
        match self.own.get() {
            Some(Ok(sender)) => Ok(sender.close(timeout).map(drop)?),
            _ => Ok(()),
        }
    }
}

impl AtExit for Handle {
    fn flush_at_exit(&self, timeout: Option<Duration>, spent: Duration) -> bool {
        let waits = timeout.unwrap_or(self.close_timeout).saturating_sub(spent);
        let flush = || match self.own.get() {
            // A program that calls for it hears the outcome.
            Some(Ok(sender)) if timeout.is_none() => sender.flush_at_exit(waits),
            _ => self.flush(waits).is_ok(),
        };
        // The program that closed the sender has waited already, or chose not to.
        self.is_closed() || flush() || self.has_nothing_queued()
    }
}

/// Starts a sender, and returns before it has connected. The options stay the caller's.
/// `*sender` is set to the sender, or to null if it cannot be started.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_sender_start(options: Option<&Options>, sender: Option<&mut *mut Handle>) -> Status {
    boundary::status(|| {
        let sender = sender.ok_or_else(null("sender"))?;
        *sender = std::ptr::null_mut();
        *sender = Box::into_raw(Box::new(Handle::start(options.ok_or_else(null("options"))?)?));
        at_exit::add(*sender);
        Ok(())
    })
}

/// Copies a message of `length` bytes into the queue and returns. Messages of one thread keep their order.
/// Waits only if there is no room, and at most as long as bbq_options_on_full says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_send(sender: Option<&Handle>, bytes: *const c_void, length: usize) -> Status {
    boundary::status(|| {
        let handle = sender.ok_or_else(null("sender"))?;
        // SAFETY: `length` readable bytes (bbq.h), or null.
        Ok(handle.sender()?.send(unsafe { pointer::bytes(bytes.cast(), length, "bytes") }?)?)
    })
}

/// Copies a message into the queue if that needs no waiting, whatever bbq_options_on_full says. A message that is refused is not
/// counted as dropped: the caller still has it. With BBQ_ON_FULL_DROP_OLDEST older messages are dropped for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_try_send(
    sender: Option<&Handle>,
    bytes: *const c_void,
    length: usize,
) -> Status {
    boundary::status(|| {
        let handle = sender.ok_or_else(null("sender"))?;
        // SAFETY: `length` readable bytes (bbq.h), or null.
        Ok(handle.sender()?.try_send(unsafe { pointer::bytes(bytes.cast(), length, "bytes") }?)?)
    })
}

/// Waits until every message taken before is acknowledged. Returns the failure that ended the sender, if one did, even if every
/// message is acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_flush(sender: Option<&Handle>, timeout_ms: u64) -> Status {
    boundary::status(|| sender.ok_or_else(null("sender"))?.flush(Duration::from_millis(timeout_ms)))
}

/// Waits until every message of every sender of this process is acknowledged: for programs that end without exit(), such as in a
/// handler of std::terminate. Not for signal handlers. Returns BBQ_STATUS_TIMEOUT if messages are left.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_flush_all(timeout_ms: u64) -> Status {
    boundary::status(|| {
        if at_exit::flush_all(Some(Duration::from_millis(timeout_ms))) {
            return Ok(());
        }
        Err(Failure::Other(Status::Timeout, "not every sender has everything acknowledged".to_owned()))
    })
}

/// Stops taking messages, waits until all are acknowledged, and ends the sender. Messages that are not acknowledged in time are
/// counted as abandoned, or stay in the spool for the next start. Closing again changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_close(sender: Option<&Handle>, timeout_ms: u64) -> Status {
    boundary::status(|| sender.ok_or_else(null("sender"))?.close(Duration::from_millis(timeout_ms)))
}

/// Reads the reconnect parameters as they were set.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_sender_reconnect(sender: Option<&Handle>, reconnect: Option<&mut Reconnect>) -> Status {
    boundary::status(|| {
        let (handle, out) = (sender.ok_or_else(null("sender"))?, reconnect.ok_or_else(null("reconnect"))?);
        *out = Reconnect::from_client(handle.sender()?.reconnect());
        Ok(())
    })
}

/// Changes the reconnect parameters. Contradictory parameters change nothing and return BBQ_STATUS_OPTION.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_sender_set_reconnect(sender: Option<&Handle>, reconnect: Option<&Reconnect>) -> Status {
    boundary::status(|| {
        let (handle, set) = (sender.ok_or_else(null("sender"))?, reconnect.ok_or_else(null("reconnect"))?);
        let set = handle.sender()?.set_reconnect(set.to_client());
        set.map_err(|error| Failure::Other(Status::Option, error.to_string()))
    })
}

/// Closes the sender with its close time-out unless it is closed, and frees it. No other thread may use it. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_sender_free(sender: *mut Handle) {
    boundary::value((), || {
        if !sender.is_null() {
            at_exit::remove(sender);
            // SAFETY: from `Box::into_raw` in bbq_sender_start, and this is its last use (bbq.h).
            drop(unsafe { Box::from_raw(sender) });
        }
    });
}
