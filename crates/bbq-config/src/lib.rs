//! What to serve. Options of the command line override environment variables, which override a TOML file, which overrides the
//! defaults. All of it is checked before anything is opened.
//!
//! An option of the command line and its key in the file have the same name, and so has the variable, in capitals behind `BBQ_`. Nothing is ignored: an unknown key, a value out of
//! range or a contradiction is an error that says where the mistake is, what is allowed and what to write.
//!
//! Not here: the options of listeners (bbq-intake), of readers (bbq-read) and of sinks. Which kinds of sinks there are is a parameter, [`Kinds`](bbq_sink::Kinds).

#![forbid(unsafe_code)]

mod check;
mod config;
mod default_file;
mod effective;
mod environment;
mod explain;
mod file;
mod keys;
#[cfg(test)]
mod kinds_of_tests;
mod memory_limit;
mod memory_plan;
mod origins;
mod place;
mod schema;

pub use config::{Config, ConfigSource};
pub use default_file::default_file;
pub use effective::EffectiveKey;
pub use environment::{Environment, FILE_VARIABLE, UPGRADE_VARIABLE, variable_of};
pub use explain::{InEffect, Subject, Value};
pub use file::{Overrides, known as known_option};
pub use keys::{ADMIN_DEFAULT, FILE_KEYS, FileKey, OnReload};
pub use memory_limit::MemoryLimit;
pub use memory_plan::{Budget, MemoryPlan};
pub use origins::Origins;
pub use schema::schema;
