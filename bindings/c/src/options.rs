//! `bbq_options`: the options of a sender. Defaults and ranges are those of bbq-client.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use bbq_client::{Sender, SenderBuilder};

use crate::failure::{Failure, Status};
use crate::notice::{NoticeCallback, ReleaseCallback, UserData};
use crate::pointer::{self, null};
use crate::reconnect::Reconnect;
use crate::{boundary, choices};

/// The default of bbq-client: how long a program that exits waits for its last messages at most.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of a sender. The same options may start any number of senders, and may be changed between.
pub struct Options {
    pub(crate) builder: SenderBuilder,
    pub(crate) has_spool: bool,
    pub(crate) close_timeout: Duration,
}

fn change(
    options: Option<&mut Options>,
    change: impl FnOnce(SenderBuilder) -> Result<SenderBuilder, Failure>,
) -> Status {
    boundary::status(|| {
        let options = options.ok_or_else(null("options"))?;
        options.builder = change(options.builder.clone())?;
        Ok(())
    })
}

/// Makes options with their defaults. Free them with bbq_options_free.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_new() -> *mut Options {
    boundary::value(std::ptr::null_mut(), || {
        let builder = Sender::builder().close_timeout(CLOSE_TIMEOUT);
        Box::into_raw(Box::new(Options { builder, has_spool: false, close_timeout: CLOSE_TIMEOUT }))
    })
}

/// Frees options. Senders that were started with them go on. Null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_free(options: Option<Box<Options>>) {
    boundary::value((), || drop(options));
}

/// Adds a server: bbq://HOST:PORT, bbq+tls://HOST:PORT or bbq+unix:///PATH. The server named first is preferred.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_server(options: Option<&mut Options>, address: *const c_char) -> Status {
    change(options, |builder| {
        // SAFETY: a string (bbq.h), or null.
        let address = unsafe { pointer::text(address, "address") }?.parse();
        Ok(builder.server(address.map_err(|error| Failure::argument(format!("{error}")))?))
    })
}

/// Which servers get a message when several are named: a bbq_delivery, BBQ_DELIVERY_ANY unless set.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_delivery(options: Option<&mut Options>, delivery: i32) -> Status {
    change(options, |builder| Ok(builder.delivery(choices::delivery(delivery)?)))
}

/// What an acknowledgement means: a bbq_ack, BBQ_ACK_DURABLE unless set.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_ack(options: Option<&mut Options>, ack: i32) -> Status {
    change(options, |builder| Ok(builder.ack(choices::ack(ack)?)))
}

/// Maximum memory of the queue in bytes, including messages that are sent and not acknowledged: 64 MiB unless set, at least 64 KiB.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_queue_bytes_max(options: Option<&mut Options>, bytes: usize) -> Status {
    change(options, |builder| Ok(builder.queue_bytes_max(bytes)))
}

/// What happens to a message for which there is no room: a bbq_on_full. BBQ_ON_FULL_BLOCK with 1000 ms unless set.
/// Only BBQ_ON_FULL_BLOCK uses the time-out; a negative one means to wait without end.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_on_full(
    options: Option<&mut Options>,
    on_full: i32,
    timeout_ms: i64,
) -> Status {
    change(options, |builder| Ok(builder.on_full(choices::on_full(on_full, timeout_ms)?)))
}

/// A batch is sent when its messages reach this size in bytes: 128 KiB unless set, 1 KiB to 256 KiB.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_batch_bytes(options: Option<&mut Options>, bytes: usize) -> Status {
    change(options, |builder| Ok(builder.batch_bytes(bytes)))
}

/// How long a message waits for others to share its batch: about 2000 us unless set, at most a minute.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_linger_us(options: Option<&mut Options>, linger_us: u64) -> Status {
    change(options, |builder| Ok(builder.linger(Duration::from_micros(linger_us))))
}

/// Whether batches are compressed: a bbq_compress, BBQ_COMPRESS_OFF unless set.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_compress(options: Option<&mut Options>, compress: i32) -> Status {
    change(options, |builder| Ok(builder.compress(choices::compress(compress)?)))
}

/// How often and how fast servers that do not answer are tried again.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_reconnect(
    options: Option<&mut Options>,
    reconnect: Option<&Reconnect>,
) -> Status {
    change(options, |builder| Ok(builder.reconnect(reconnect.ok_or_else(null("reconnect"))?.to_client())))
}

/// The sender leaves a server that acknowledges nothing for this time although messages wait: 30000 ms unless set, at least 1000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_delivery_timeout_ms(options: Option<&mut Options>, timeout_ms: u64) -> Status {
    change(options, |builder| Ok(builder.delivery_timeout(Duration::from_millis(timeout_ms))))
}

/// How long freeing the sender, and the exit of the process, wait for acknowledgements at most: 5000 ms unless set.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_close_timeout_ms(options: Option<&mut Options>, timeout_ms: u64) -> Status {
    boundary::status(|| {
        let options = options.ok_or_else(null("options"))?;
        options.close_timeout = Duration::from_millis(timeout_ms);
        options.builder = options.builder.clone().close_timeout(options.close_timeout);
        Ok(())
    })
}

/// A directory of this sender's own. What bbq_send has taken then survives the process, though not a power failure, and the next sender
/// that is started with the directory delivers it. Each bbq_send then costs a system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_spool(
    options: Option<&mut Options>,
    directory: *const c_char,
) -> Status {
    boundary::status(|| {
        let options = options.ok_or_else(null("options"))?;
        // SAFETY: a string (bbq.h), or null.
        let directory = unsafe { pointer::path(directory, "directory") }?;
        options.has_spool = true;
        options.builder = options.builder.clone().spool(directory);
        Ok(())
    })
}

/// Maximum size of the spool in bytes: 1 GiB unless set, at least 64 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_spool_bytes_max(options: Option<&mut Options>, bytes: u64) -> Status {
    change(options, |builder| Ok(builder.spool_bytes_max(bytes)))
}

/// Whether the sender, once there is room again, sends a message that says how many were dropped: yes, unless set.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_options_report_drops(options: Option<&mut Options>, report: bool) -> Status {
    change(options, |builder| Ok(builder.report_drops(report)))
}

/// A name that the server shows, at most 255 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_name(options: Option<&mut Options>, name: *const c_char) -> Status {
    // SAFETY: a string (bbq.h), or null.
    change(options, |builder| Ok(builder.name(unsafe { pointer::text(name, "name") }?)))
}

/// What is shown to servers that ask for a token: 16 to 512 visible ASCII characters. Without TLS, everybody on the way can read it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_token(options: Option<&mut Options>, token: *const c_char) -> Status {
    // SAFETY: a string (bbq.h), or null.
    change(options, |builder| Ok(builder.token(unsafe { pointer::text(token, "token") }?)))
}

/// PEM file with the certificates of the CAs that issue those of servers reached by TLS (bbq+tls://). Unless set, the CAs that the system
/// trusts. The files for TLS are read when a sender is started, and again before a connection if they have changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_tls_ca(options: Option<&mut Options>, file: *const c_char) -> Status {
    // SAFETY: a string (bbq.h), or null.
    change(options, |builder| Ok(builder.tls_ca(unsafe { pointer::path(file, "file") }?)))
}

/// PEM file with the certificate that is shown to servers that ask for one, followed by those between it and its CA. Needs
/// bbq_options_tls_key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_tls_cert(options: Option<&mut Options>, file: *const c_char) -> Status {
    // SAFETY: a string (bbq.h), or null.
    change(options, |builder| Ok(builder.tls_cert(unsafe { pointer::path(file, "file") }?)))
}

/// PEM file with the key of bbq_options_tls_cert, which may be the same file. The key must not be encrypted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_tls_key(options: Option<&mut Options>, file: *const c_char) -> Status {
    // SAFETY: a string (bbq.h), or null.
    change(options, |builder| Ok(builder.tls_key(unsafe { pointer::path(file, "file") }?)))
}

/// The name that must be in the certificate of a server reached by TLS. Unless set, the host of its address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_tls_server_name(
    options: Option<&mut Options>,
    name: *const c_char,
) -> Status {
    // SAFETY: a string (bbq.h), or null.
    change(options, |builder| Ok(builder.tls_server_name(unsafe { pointer::text(name, "name") }?)))
}

/// Calls `callback` with `user`, on a thread of the sender, when a server begins or ceases to answer. The callback must return quickly,
/// and must not throw, fork or free the sender. `release`, which may be null, is called with `user` when neither the options nor a
/// sender can call `callback` any more; also when this call fails. Both may be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_options_notice(
    options: Option<&mut Options>,
    callback: NoticeCallback,
    user: *mut c_void,
    release: ReleaseCallback,
) -> Status {
    // SAFETY: the program lets both be called with `user` from any thread (above).
    let user = unsafe { UserData::new(user, release) };
    change(options, |builder| {
        let callback = callback.ok_or_else(null("callback"))?;
        // SAFETY: as above.
        Ok(builder.on_notice(move |notice| unsafe { user.call(callback, notice) }))
    })
}
