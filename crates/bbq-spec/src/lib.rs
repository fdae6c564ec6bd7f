//! SPECs, such as `file:PATH?format=json`: their options, the values that each accepts, and secrets; and what all parts of bbq's
//! server count and log with.
//!
//! A [`SpecText`] is a SPEC before it is checked, and a [`Query`] has its options, of which each part of the server takes its own. Which
//! options there are is not known here: each listener and sink lists its own as [`SpecOption`]s.
//!
//! Invariant: nothing that is shown, logged or serialized contains a secret.

#![forbid(unsafe_code)]

pub mod counter;
mod error;
mod file_stamp;
pub mod own_files;
mod quantity;
mod query;
mod rate_limited_log;
mod secret;
mod spec_text;
pub mod threads;
mod time;
mod values;
mod variables;
mod with_sources;

pub use error::{ConfigError, Part};
pub use file_stamp::FileStamp;
pub use quantity::{parse_bytes, with_unit};
pub use query::{NAME_OPTION, Query, SpecOption, checked_name, has_user, hint, nearest};
pub use rate_limited_log::RateLimitedLog;
pub use secret::{SECRET_BYTES_MAX, SECRET_SHOWN, Secret, warn_if_others_read};
pub use spec_text::{SpecText, scalar, without_user};
pub use time::{unix_ns, unix_seconds};
pub use values::{AUTO, Values};
pub use variables::EXEC_VARIABLE;
pub use with_sources::with_sources;
