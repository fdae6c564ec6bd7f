//! A reader on real files, with a store that tests hold in memory.

#![expect(clippy::expect_used, reason = "a test fails by it")]

mod basics;
mod copytruncate;
mod model;
mod options;
mod panics;
mod rotation;
mod store;
mod unseen;
