//! `bbq_sender`: a sender of the process that uses it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bbq_client::{SendError, Sender, SenderBuilder};

use crate::at_exit::AtExit;
use crate::failure::{Failure, Status};
use crate::options::Options;
use crate::process::{PerProcess, watch_forks};
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
        watch_forks()?;
        let handle = Handle {
            builder: options.builder.clone(),
            has_spool: options.has_spool,
            close_timeout: options.close_timeout,
            closed: AtomicBool::new(false),
            own: PerProcess::new(),
        };
        let started = handle.own.get(|| handle.builder.clone().start().map_err(Failure::from));
        started.as_ref().map_err(Failure::clone)?;
        Ok(handle)
    }

    /// This process's sender.
    #[inline]
    pub(crate) fn sender(&self) -> Result<&Sender, Failure> {
        self.own.get(|| self.start_in_child()).as_ref().map_err(Failure::clone)
    }

    /// What the parent's sender has is the parent's to send; what comes now needs a stream and threads of its own.
    fn start_in_child(&self) -> Result<Sender, Failure> {
        if self.is_closed() {
            return Err(SendError::Closed.into());
        }
        if self.has_spool {
            let text = "the sender's spool belongs to the parent process: start a sender with a spool of its own after the fork";
            return Err(Failure::Other(Status::Forked, text.to_owned()));
        }
        let sender = self.builder.clone().start()?;
        at_exit::enlist(self);
        Ok(sender)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Waits for what this process has given it. A child that has sent nothing starts nothing for that.
    fn flush(&self, timeout: Duration) -> Result<(), Failure> {
        match self.own.look() {
            Some(Ok(sender)) => Ok(sender.flush(timeout)?),
            Some(Err(failure)) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    fn close(&self, timeout: Duration) -> Result<(), Failure> {
        self.closed.store(true, Ordering::Relaxed);
        match self.own.look() {
            Some(Ok(sender)) => Ok(sender.close(timeout).map(drop)?),
            _ => Ok(()),
        }
    }
}

impl AtExit for Handle {
    fn flush_at_exit(&self, timeout: Option<Duration>, spent: Duration) -> bool {
        let timeout = timeout.unwrap_or(self.close_timeout);
        // Whoever has closed it has waited, or has chosen not to.
        self.is_closed() || self.flush(timeout.saturating_sub(spent)).is_ok()
    }
}

/// Starts a sender, and returns before it has connected. The options stay the caller's.
/// `*sender` is set to the sender, or to null when it cannot be started.
///
/// # Safety
/// `options` is from bbq_options_new; `sender` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_sender_start(options: *const Options, sender: *mut *mut Handle) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let (sender, options) =
            unsafe { (pointer::unique(sender, "sender")?, pointer::shared(options, "options")) };
        *sender = std::ptr::null_mut();
        *sender = Box::into_raw(Box::new(Handle::start(options?)?));
        at_exit::enlist(*sender);
        Ok(())
    })
}

/// Takes a message: copies it, and returns. Messages of one thread keep their order.
/// Waits only when there is no room, and only as long as bbq_options_on_full says.
///
/// # Safety
/// `sender` is from bbq_sender_start and not freed; `bytes` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_send(sender: *const Handle, bytes: *const c_void, length: usize) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let (handle, bytes) =
            unsafe { (pointer::shared(sender, "sender")?, pointer::bytes(bytes.cast(), length, "bytes")?) };
        Ok(handle.sender()?.send(bytes)?)
    })
}

/// Takes a message if that needs no waiting, whatever bbq_options_on_full says. One that is refused is not counted as dropped: the
/// caller still has it. With BBQ_ON_FULL_DROP_OLDEST older ones go for it.
///
/// # Safety
/// `sender` is from bbq_sender_start and not freed; `bytes` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_try_send(sender: *const Handle, bytes: *const c_void, length: usize) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let (handle, bytes) =
            unsafe { (pointer::shared(sender, "sender")?, pointer::bytes(bytes.cast(), length, "bytes")?) };
        Ok(handle.sender()?.try_send(bytes)?)
    })
}

/// Waits until everything taken before is acknowledged.
///
/// # Safety
/// `sender` is from bbq_sender_start and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_flush(sender: *const Handle, timeout_ms: u64) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let handle = unsafe { pointer::shared(sender, "sender") }?;
        handle.flush(Duration::from_millis(timeout_ms))
    })
}

/// Waits until everything that every sender of this process has taken is acknowledged: for programs that are about to end
/// without exit(), such as in a handler of std::terminate. Not for signal handlers.
/// Answers BBQ_STATUS_TIMEOUT when something is left.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_flush_all(timeout_ms: u64) -> Status {
    boundary::status(|| {
        if at_exit::flush_all(Some(Duration::from_millis(timeout_ms))) {
            return Ok(());
        }
        Err(Failure::Other(Status::Timeout, "not every sender has everything acknowledged".to_owned()))
    })
}

/// Takes nothing any more, waits until everything is acknowledged, and ends. What is not acknowledged in time is counted as
/// abandoned, or stays in the spool for the next start. Closing again changes nothing.
///
/// # Safety
/// `sender` is from bbq_sender_start and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_close(sender: *const Handle, timeout_ms: u64) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let handle = unsafe { pointer::shared(sender, "sender") }?;
        handle.close(Duration::from_millis(timeout_ms))
    })
}

/// Reads the set reconnect parameters.
///
/// # Safety
/// `sender` is from bbq_sender_start and not freed; `reconnect` points to a bbq_reconnect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_sender_reconnect(sender: *const Handle, reconnect: *mut Reconnect) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let (handle, out) =
            unsafe { (pointer::shared(sender, "sender")?, pointer::unique(reconnect, "reconnect")?) };
        *out = Reconnect::from_client(handle.sender()?.reconnect());
        Ok(())
    })
}

/// Sets other reconnect parameters; contradictory ones change nothing and answer BBQ_STATUS_OPTION.
///
/// # Safety
/// `sender` is from bbq_sender_start and not freed; `reconnect` points to a bbq_reconnect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_sender_set_reconnect(
    sender: *const Handle,
    reconnect: *const Reconnect,
) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let (handle, set) =
            unsafe { (pointer::shared(sender, "sender")?, pointer::shared(reconnect, "reconnect")?) };
        let set = handle.sender()?.set_reconnect(set.to_client());
        set.map_err(|error| Failure::Other(Status::Option, error.to_string()))
    })
}

/// Closes the sender with its close time-out unless it is closed, and frees it. Null is nothing to free.
///
/// # Safety
/// `sender` is null, or from bbq_sender_start and not freed, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_sender_free(sender: *mut Handle) {
    boundary::value((), || {
        if !sender.is_null() {
            at_exit::strike(sender);
            // SAFETY: from `Box::into_raw` in bbq_sender_start, and this is its last use.
            drop(unsafe { Box::from_raw(sender) });
        }
    });
}
