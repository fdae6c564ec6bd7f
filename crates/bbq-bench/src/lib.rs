//! bbq's measurements, run by users on their own machines as `bbq bench EXPERIMENT`.
//!
//! An [`Experiment`] is a plan of sections, and a section is rows to be compared: each row starts a server as a process of
//! its own, loads it for a while, and says what that cost. The runner goes through all rows once a round, so that what
//! changes on the machine meanwhile meets all of them; a figure is the median over the rounds with the least and the most,
//! and a ratio is taken within each round. A [`Report`] is the outcome: a table for people, JSON for programs, a page with
//! plots.
//!
//! The servers are this very program, started again: `bbq serve`, and for the listener groups alone [`serve`], which is
//! bbq-listen with a protocol that costs next to nothing.
//!
//! Not here: what bbq is held to (bench/marks.py), and instruction counts.
//!
//! Invariant: nothing is sent to another machine; every load goes to loopback.
//! Invariant: a sample that lost something it should not have lost, or met an error, is a failure and not a figure.
//! Invariant: every process, connection and file of a sample is gone when it ends; and every process also when this program
//! is killed.

#![forbid(unsafe_code)]

mod address;
mod catalogue;
mod cpu;
mod directory;
mod experiments;
mod http;
mod interrupt;
mod latency;
mod leash;
mod listen_server;
mod load;
mod machine;
mod meter;
mod metric;
mod page;
mod pause;
mod peers;
mod plan;
mod plot;
mod process;
mod product;
mod progress;
mod report;
mod results;
mod run;
mod sample;
mod section;
mod server;
mod settings;
mod spread;
mod svg;
mod table;
mod verdict;

pub use catalogue::{EXPERIMENTS, Experiment, list};
pub use leash::{End, leash};
pub use report::{Report, prepare};
pub use run::run;
pub use server::{ServeOptions, Service, serve};
pub use settings::{DURATION_DEFAULT, ROUNDS_DEFAULT, Settings};
// How many workers servers are given here.
pub use bbq_listen::worker_count as workers;
