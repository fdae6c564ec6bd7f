//! The log: a line per event on standard error, at INFO and above, or as BBQ_LOG says (a tracing filter such as `debug`).

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub(crate) fn start() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .with_env_var("BBQ_LOG")
        .from_env_lossy();
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false)
        // An error of the log would be printed to standard error as well, and a closed standard error would end the program.
        .log_internal_errors(false)
        .init();
}
