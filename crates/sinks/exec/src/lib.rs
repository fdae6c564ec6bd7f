//! `exec:COMMAND` runs a command with `/bin/sh -c`, and writes messages to its standard input, each on a line.
//!
//! ```text
//! driver -> submit -> queue -> run: standard input of the command
//!           settle <- queue <- run: what it has read, or the lines that it has acknowledged
//! ```
//!
//! `sink` is what the driver sees; it starts the command again when it has ended. `run` is one life of the command, with its pipes;
//! `process` is its processes. `queue` has the groups, and what of them is written. `unconfirmed` counts what is written and not
//! settled, `acknowledgements` reads the numbers that the command writes, `command_log` takes what else it writes to bbq's log. `limit` finds
//! the message on which a command fails.
//!
//! Each message arrives at least once. With `ack=read` a message is delivered when the command has read all of its bytes from the
//! pipe: the kernel tells how many are left (FIONREAD), also after the command has died. With `ack=line` a message is delivered when
//! the command says so. What is not delivered when a run ends is written to the next run. With `ack=line`, a message on which the command
//! fails for long is rejected: with `ack=read` such a message counts as delivered.
//!
//! No SIGCHLD is needed: a pidfd tells that the command has ended.
//!
//! Invariant: a run begins with a whole message, and its standard input is closed only behind a whole message as long as it lives.
//! Invariant: no call but `wait` waits, except that the command is ended by force when the sink is dropped (for a second at most).
//! Invariant: a process group gets signals only before its leader is reaped, as the number may be another group's then.

#![forbid(unsafe_code)]

mod acknowledgements;
mod alarm;
mod command_log;
mod limit;
mod process;
mod queue;
mod run;
mod settings;
mod sink;
mod target;
#[cfg(test)]
mod tests;
mod unconfirmed;

pub use target::EXEC;
