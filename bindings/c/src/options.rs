//! `bbq_options`: how a sender is to send. Defaults and ranges are bbq-client's.

use std::ffi::{OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use bbq_client::{Sender, SenderBuilder};

use crate::failure::{Failure, Status};
use crate::notice::{self, NoticeCallback, ReleaseCallback};
use crate::reconnect::Reconnect;
use crate::{boundary, choices, pointer};

/// As bbq-client's own: a program that ends waits at most so long for its last messages.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of a sender. They may be used for any number of senders, and changed between.
pub struct Options {
    pub(crate) builder: SenderBuilder,
    pub(crate) has_spool: bool,
    pub(crate) close_timeout: Duration,
}

/// Changes the builder of the options.
///
/// # Safety
/// `options` is from [`bbq_options_new`], and used by one thread.
unsafe fn change(
    options: *mut Options,
    change: impl FnOnce(&mut Options, SenderBuilder) -> Result<SenderBuilder, Failure>,
) -> Status {
    boundary::status(|| {
        // SAFETY: the caller's promise is this function's.
        let options = unsafe { pointer::unique(options, "options") }?;
        let builder = options.builder.clone();
        options.builder = change(options, builder)?;
        Ok(())
    })
}

/// Options with their defaults, to be freed with bbq_options_free.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_new() -> *mut Options {
    boundary::value(std::ptr::null_mut(), || {
        let builder = Sender::builder().close_timeout(CLOSE_TIMEOUT);
        Box::into_raw(Box::new(Options { builder, has_spool: false, close_timeout: CLOSE_TIMEOUT }))
    })
}

/// Frees options; senders that were started with them go on. Null is nothing to free.
///
/// # Safety
/// `options` is null, or from bbq_options_new and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_free(options: *mut Options) {
    boundary::value((), || {
        if !options.is_null() {
            // SAFETY: from `Box::into_raw` in bbq_options_new, and this is its last use.
            drop(unsafe { Box::from_raw(options) });
        }
    });
}

/// One more server, as bbq://HOST:PORT or bbq+unix:///PATH; the one named first is preferred.
///
/// # Safety
/// `options` is from bbq_options_new; `address` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_server(options: *mut Options, address: *const c_char) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe {
        change(options, |_, builder| {
            let address = pointer::text(address, "address")?;
            let address = address.parse().map_err(|error| Failure::argument(format!("{error}")));
            Ok(builder.server(address?))
        })
    }
}

/// Who gets a message when several servers are named: a bbq_delivery, BBQ_DELIVERY_ANY unless set.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_delivery(options: *mut Options, delivery: i32) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.delivery(choices::delivery(delivery)?))) }
}

/// What an acknowledgement means: a bbq_ack, BBQ_ACK_DURABLE unless set.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_ack(options: *mut Options, ack: i32) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.ack(choices::ack(ack)?))) }
}

/// Bytes that the queue takes at most, what is sent and not acknowledged included: 64 MiB unless set, at least 64 KiB.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_queue_bytes_max(options: *mut Options, bytes: usize) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.queue_bytes_max(bytes))) }
}

/// What becomes of a message for which there is no room: a bbq_on_full. BBQ_ON_FULL_BLOCK with 1000 ms unless set.
/// The time-out is only for BBQ_ON_FULL_BLOCK; a negative one means to wait without end.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_on_full(options: *mut Options, on_full: i32, timeout_ms: i64) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.on_full(choices::on_full(on_full, timeout_ms)?))) }
}

/// A batch is sent when its messages have so many bytes: 128 KiB unless set, 1 KiB to 256 KiB.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_batch_bytes(options: *mut Options, bytes: usize) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.batch_bytes(bytes))) }
}

/// A message waits so long for company: about 2000 us unless set, at most a minute.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_linger_us(options: *mut Options, linger_us: u64) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.linger(Duration::from_micros(linger_us)))) }
}

/// Whether batches are compressed: a bbq_compress, BBQ_COMPRESS_OFF unless set.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_compress(options: *mut Options, compress: i32) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.compress(choices::compress(compress)?))) }
}

/// How often and how fast servers that do not answer are tried again.
///
/// # Safety
/// `options` is from bbq_options_new; `reconnect` points to a bbq_reconnect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_reconnect(options: *mut Options, reconnect: *const Reconnect) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe {
        change(options, |_, builder| {
            Ok(builder.reconnect(pointer::shared(reconnect, "reconnect")?.to_client()))
        })
    }
}

/// A server that acknowledges nothing for so long although something waits is left: 30000 ms unless set, at least 1000 ms.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_delivery_timeout_ms(options: *mut Options, timeout_ms: u64) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.delivery_timeout(Duration::from_millis(timeout_ms)))) }
}

/// Freeing the sender, and the end of the process, wait at most so long for what is not acknowledged: 5000 ms unless set.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_close_timeout_ms(options: *mut Options, timeout_ms: u64) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe {
        change(options, |options, builder| {
            options.close_timeout = Duration::from_millis(timeout_ms);
            Ok(builder.close_timeout(options.close_timeout))
        })
    }
}

/// A directory of this sender's own. What bbq_send has taken then survives the process, though not a power failure, and is
/// delivered by the next sender that is started with it. Each bbq_send costs a system call more.
///
/// # Safety
/// `options` is from bbq_options_new; `directory` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_spool(options: *mut Options, directory: *const c_char) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe {
        change(options, |options, builder| {
            let directory = pointer::string(directory, "directory")?;
            options.has_spool = true;
            Ok(builder.spool(OsStr::from_bytes(directory.to_bytes())))
        })
    }
}

/// Bytes that the spool takes at most: 1 GiB unless set, at least 64 MiB.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_spool_bytes_max(options: *mut Options, bytes: u64) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.spool_bytes_max(bytes))) }
}

/// Whether a message that says how many were dropped is sent once there is room again: yes, unless set.
///
/// # Safety
/// `options` is from bbq_options_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_report_drops(options: *mut Options, report: bool) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.report_drops(report))) }
}

/// Shown by the server, at most 255 bytes.
///
/// # Safety
/// `options` is from bbq_options_new; `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_name(options: *mut Options, name: *const c_char) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe { change(options, |_, builder| Ok(builder.name(pointer::text(name, "name")?))) }
}

/// Calls `callback` with `user` on a thread of the sender's when a server answers that did not before, or the other way round.
/// It must be quick, must not throw, and must not fork or free the sender.
/// `release`, which may be null, is called with `user` when neither the options nor a sender can call `callback` any more;
/// also when this call fails.
///
/// # Safety
/// `options` is from bbq_options_new; `callback` and `release` may be called with `user` from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_notice(
    options: *mut Options,
    callback: NoticeCallback,
    user: *mut c_void,
    release: ReleaseCallback,
) -> Status {
    // SAFETY: the caller's promise is this function's.
    unsafe {
        let user = notice::User::new(user, release);
        change(options, |_, builder| {
            let callback = callback.ok_or_else(|| Failure::argument("callback is a null pointer"))?;
            Ok(builder.on_notice(move |notice| user.tell(callback, notice)))
        })
    }
}
