//! Panics: each is a defect, and is logged with its thread. A panic in a thread that messages depend on ends the server in order;
//! nothing is acknowledged by that thread any more.
//!
//! The panic hook notices them, rather than the end of the thread: an event loop catches the panics of its tasks and goes on.

use std::panic;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

use bbq_spec::threads;
use tokio::sync::Notify;
use tracing::error;

/// Threads that the server can do without: with them, only a request or an upgrade fails, or a sink begins again.
const HARMLESS: [&str; 6] = ["admin", "admin-tail", "control-checks", "kafka", "upgrade", "upgrade-log"];

/// Threads of the server that other crates start.
const OF_SERVER: [&str; 3] = ["lane-", "letters-", "handoff"];

/// Whose panics are noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noticed {
    /// Those of every thread: the process is the server's own.
    Process,
    /// Those of the server's threads: the process is another program's.
    Server,
}

static FIRST: Mutex<Option<String>> = Mutex::new(None);
static SEEN: Notify = Notify::const_new();

/// Notices panics from here on. The first call of the process says whose.
pub(crate) fn notice(noticed: Noticed) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let this = thread::current();
            let thread = this.name().unwrap_or("without a name");
            let is_of_server =
                || threads::is_of_server() || OF_SERVER.iter().any(|name| thread.starts_with(name));
            if noticed == Noticed::Server && !is_of_server() {
                return before(info);
            }
            let message = info.payload_as_str().unwrap_or("no message");
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            error!(thread, message, place, "a thread panicked: a defect of this program");
            if std::env::var_os("RUST_BACKTRACE").is_some() {
                before(info);
            }
            if !HARMLESS.contains(&thread) {
                FIRST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| thread.to_owned());
                SEEN.notify_one();
            }
        }));
    });
}

/// Waits for a panic that the server cannot go on with; returns the thread's name.
pub(crate) async fn fatal() -> String {
    loop {
        let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match first {
            Some(thread) => return thread,
            None => SEEN.notified().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_noticed_also_where_an_event_loop_catches_it() {
        notice(Noticed::Process);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let harmless =
            thread::Builder::new().name("admin".to_owned()).spawn(|| panic!("on purpose")).unwrap();
        assert!(harmless.join().is_err());
        // A panic while the lock is held would wait for it in the hook.
        let first = FIRST.lock().unwrap().clone();
        assert_eq!(first, None);
        let worker = thread::Builder::new().name("worker-7".to_owned()).spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let task = runtime.spawn(async { panic!("on purpose") });
            assert!(runtime.block_on(task).is_err());
        });
        worker.unwrap().join().unwrap();
        assert_eq!(runtime.block_on(fatal()), "worker-7");
    }
}
