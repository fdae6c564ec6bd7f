//! bbq's measurements, run by users on their own machines as `bbq bench EXPERIMENT`.
//!
//! An [`Experiment`] is a plan of sections, and a section is a list of rows to compare. Each row starts a server as a process
//! of its own, loads it for a while, and measures the cost. The runner measures all rows once in each round, so that a change
//! of the machine affects all of them. A figure is the median over the rounds, with the least and the most. A ratio is taken
//! within each round. A [`Report`] is the outcome: a table for people, JSON for programs, and a page with plots.
//!
//! The servers are this program, started again: `bbq serve`, or, to measure listener groups alone, [`serve`], which is
//! bbq-listen with a protocol that costs next to nothing.
//!
//! Some sections have marks: what a row may cost at most. A report says whether they were met.
//!
//! Not here: instruction counts.
//!
//! Invariant: nothing is sent to another machine; every load goes to loopback.
//! Invariant: a sample that lost what it must not lose, or had an error, is a failure and not a figure.
//! Invariant: when a sample ends, its processes, connections and files are gone. When this program is killed, so are its
//! processes.

#![forbid(unsafe_code)]

mod address;
mod catalogue;
mod cell;
mod cpu;
mod directory;
mod experiments;
mod http;
mod interrupt;
mod judged;
mod latency;
mod leash;
mod listen_server;
mod load;
mod machine;
mod meter;
mod metric;
mod overflows;
mod page;
mod pause;
mod peers;
mod picture;
mod plan;
mod plot;
mod process;
mod product;
mod progress;
#[cfg(test)]
mod redrawn;
mod report;
mod results;
mod run;
mod sample;
mod section;
mod server;
mod settings;
mod spread;
mod stalled;
mod svg;
mod table;
mod unit;
mod verdict;

pub use catalogue::{EXPERIMENTS, Experiment, list};
pub use leash::{End, leash};
pub use plan::Plan;
pub use report::{Report, prepare};
pub use run::run;
pub use server::{ServeOptions, serve};
pub use settings::{DURATION_DEFAULT, ROUNDS_DEFAULT, Settings};
// The number of workers of a server on this machine.
pub use bbq_listen::worker_count as workers;
