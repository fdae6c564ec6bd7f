//! The log: a line per event on standard error, at INFO and above, or as BBQ_LOG says (a tracing filter such as `debug`).

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::log_queue::LogQueue;
use crate::safe_text::Lines;

/// Libraries whose lines are left out unless BBQ_LOG names them: who uses them tells the same in words of ours, and not for each
/// connection of a peer that floods.
const QUIET: [&str; 5] = ["async_nats", "h2", "hyper", "librdkafka", "rdkafka"];

/// The queue of a server's log.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// With `is_queued`, threads that log never wait for a reader of the log; call [`finish`] at the end.
pub(crate) fn start(is_queued: bool) {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .with_env_var("BBQ_LOG")
        .from_env_lossy();
    let wanted = std::env::var("BBQ_LOG").unwrap_or_default();
    let quiet = QUIET.iter().filter(|library| !wanted.contains(*library));
    let filter = quiet.fold(filter, |filter, library| match format!("{library}=off").parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    });
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let writer = match is_queued {
        true => {
            let queue = QUEUE.get_or_init(LogQueue::start);
            BoxMakeWriter::new(move || Lines { out: queue.clone(), has_colours: colour })
        }
        false => BoxMakeWriter::new(move || Lines { out: std::io::stderr(), has_colours: colour }),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(colour)
        .with_target(false)
        // An error of the log would be printed to standard error as well, and a closed standard error would end the program.
        .log_internal_errors(false)
        .init();
}

/// Waits until the log is written. Returns `false` if nobody reads standard error.
pub(crate) fn finish() -> bool {
    QUEUE.get().is_none_or(LogQueue::finish)
}
