//! The hot paths, each in a fixed amount of work, for callgrind to count their instructions. `cargo xtask instructions`
//! runs this once for each row of `counts.toml` and compares.
//!
//! Counted is what runs in [`counted`] on its thread, the C library included and the kernel not. So a count tells of our
//! own code and says nothing of system calls, cache misses or locks that are fought for: times are bench/'s.

#![expect(clippy::expect_used, reason = "a measurement that cannot be set up has no result")]

mod accept;
mod batch;
mod framing;
mod lane;

use std::process::ExitCode;

/// Where callgrind switches its count on: the name is in xtask, too.
#[inline(never)]
fn counted(work: impl FnOnce()) {
    work();
}

fn main() -> ExitCode {
    let path = std::env::args().nth(1).unwrap_or_default();
    match path.as_str() {
        "accept" => accept::run(),
        "batch-encode" => batch::encode(),
        "batch-verify" => batch::verify(),
        "lane-append" => lane::append(),
        "lane-read" => lane::read(),
        "lines" => framing::lines(),
        "syslog" => framing::syslog(),
        _ => {
            eprintln!("{path:?} is none of the paths in counts.toml");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
