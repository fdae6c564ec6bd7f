//! What a kind of sink is: how its SPEC is read, and how it is opened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_spec::{ConfigError, Query, SpecOption};
use bbq_storage::Storage;

use super::again::Again;
use super::interface::{Now, OpenError, Sink};

/// Most servers of a SPEC that are tried one after the other: when all are down, an attempt on each precedes the pause.
pub const SERVERS_MAX: usize = 16;

/// Reads what follows the colon of a SPEC.
pub(crate) type Parse = fn(&str, &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError>;

/// A kind of sink. Each is a constant beside the sink, and is in the list of all kinds (`kinds`).
pub struct Kind {
    /// What precedes the colon of a SPEC.
    pub word: &'static str,
    /// What follows the colon, as help shows it; empty if nothing follows.
    pub argument: &'static str,
    /// What the sink does, for help.
    pub summary: &'static str,
    /// The options, except those that every kind has: lists of them, as kinds share some.
    pub options: &'static [&'static [SpecOption]],
    /// Whether each destination may have only one sink.
    pub is_exclusive: bool,
    /// Reads what follows the colon, and takes its options. An error says what is wrong and what to write.
    pub parse: Parse,
}

/// Lines that were kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surplus {
    /// Those that the spool does not have.
    pub lines: u64,
    /// All of the end of the file.
    pub kept_in: PathBuf,
}

/// The destination of a checked SPEC.
pub trait Target: fmt::Debug + Send + Sync {
    /// Whether the destination is a server that has on its disk what it has taken, and passes it on as it came.
    fn is_next_server(&self) -> bool {
        false
    }

    /// Memory that the destination needs for what it has taken and not settled, whatever the server has. A sink with less would stand still.
    fn memory_bytes_min(&self) -> u64 {
        0
    }

    /// Whether the destination takes messages out of another spool as well: it keeps no position of this one.
    fn takes_dead_letters(&self) -> bool {
        false
    }

    /// Whether the cursor stays behind what is delivered, as the destination may lose what it has taken, and needs it again.
    fn holds_back(&self) -> bool {
        false
    }

    /// Whether a name at the destination has fields that `parse` has to find.
    fn names_parsed(&self) -> bool {
        false
    }

    /// The file that is written, if it is one file.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Keeps lines of that file that its cursor does not cover and that `again` does not write again, before [`Target::open`] cuts them off.
    /// `state` is that of the cursor.
    ///
    /// # Errors
    /// They could not be compared or kept, and nothing is cut off then; `ResourceBusy`: another program writes to the file.
    fn keep_surplus(
        &self,
        storage: &dyn Storage,
        state: &str,
        again: &mut Again<'_>,
    ) -> io::Result<Option<Surplus>> {
        let _unused = (storage, state, again);
        Ok(None)
    }

    /// The directory that files are made in, if any.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Opens the destination, and makes it agree with the state that the cursor remembers. Files are reached through `storage`.
    fn open(
        &self,
        storage: &Arc<dyn Storage>,
        state: Option<&str>,
        now: Now,
    ) -> Result<Box<dyn Sink>, OpenError>;
}

impl Kind {
    /// Each option of the lists.
    pub fn each_option(&self) -> impl Iterator<Item = &'static SpecOption> + use<> {
        self.options.iter().copied().flatten()
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}
