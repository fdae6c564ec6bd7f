//! A reader of either kind: of files, or of a journal.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bbq_rules::Filter;
use bbq_storage::Storage;
use bbq_wire::StreamId;

use crate::error::ReadError;
use crate::journal::{self, JournalReader};
use crate::limits::Pace;
use crate::reader::Reader;
use crate::spec::ReadSpec;
use crate::store::Store;
use crate::view::ReaderView;

/// What reads one SPEC. It runs on a thread of its own.
pub struct Source(Kind);

enum Kind {
    Files(Box<Reader>),
    Journal(Box<JournalReader>),
}

impl Source {
    /// Opens the reader's catalog in this directory, which is created if it is missing. Nothing is read before [`Source::run`].
    ///
    /// # Errors
    /// The catalog cannot be read for another reason than damage, the directory cannot be created, or there is no journalctl.
    pub fn open(spec: &ReadSpec, directory: &Path, storage: Arc<dyn Storage>) -> Result<Source, ReadError> {
        Source::open_with(spec, directory, storage, Pace::default())
    }

    /// As [`Source::open`], with other intervals, for tests.
    ///
    /// # Errors
    /// As [`Source::open`].
    #[doc(hidden)]
    pub fn open_with(
        spec: &ReadSpec,
        directory: &Path,
        storage: Arc<dyn Storage>,
        pace: Pace,
    ) -> Result<Source, ReadError> {
        let kind = match &spec.journal {
            None => Kind::Files(Box::new(Reader::open_with(spec, directory, storage, pace)?)),
            Some(rules) => {
                let what = (spec.source.as_str(), rules);
                let messages =
                    (spec.line_bytes_max, spec.filter.as_ref().filter(|rules| rules.acts()).map(Filter::new));
                Kind::Journal(Box::new(JournalReader::open(what, messages, directory, storage, pace)?))
            }
        };
        Ok(Source(kind))
    }

    /// What others see of it.
    #[must_use]
    pub fn view(&self) -> Arc<ReaderView> {
        match &self.0 {
            Kind::Files(reader) => reader.view(),
            Kind::Journal(reader) => reader.view(),
        }
    }

    /// Reads until the store is stopping. What is not handed over by then is read after the next start.
    pub fn run(self, store: impl Store) {
        match self.0 {
            Kind::Files(reader) => reader.run(store),
            Kind::Journal(reader) => reader.run(store),
        }
    }
}

/// The streams of all catalogs in a directory, so that the server does not forget them while they are not read yet. A damaged catalog
/// has none: [`Source::open`] tells about it.
///
/// # Errors
/// A catalog cannot be read now: its streams could be forgotten, and their messages would be read again.
pub fn catalogued(directory: &Path, storage: &dyn Storage) -> io::Result<Vec<StreamId>> {
    let mut streams = crate::catalog::catalogued(directory, storage)?;
    streams.extend(journal::catalogued(directory, storage)?);
    Ok(streams)
}
