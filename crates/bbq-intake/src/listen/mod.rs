//! What a listener is configured to be: its SPEC, `PROTOCOL+TRANSPORT://ADDRESS?OPTIONS`, read and checked.

mod distribution;
mod kept;
pub(crate) mod protocol;
mod silence;
mod spec;
mod unix_file;

pub use distribution::{DISTRIBUTIONS, parsed as parsed_distribution};
pub use kept::{DISTRIBUTION, is_kept, kept_options};
pub use protocol::{PROTOCOLS, Protocol};
pub use silence::Silence;
pub use spec::without_effect;
pub use spec::{ListenSpec, OnFull, listen_options};
pub use unix_file::UnixFile;
