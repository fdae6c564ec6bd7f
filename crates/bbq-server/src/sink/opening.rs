//! A sink that has its cursor, and not yet its output.

use std::collections::BTreeMap;
use std::sync::Arc;

use bbq_spool::{Cursor, CursorStore, LaneReader, Spool, SpoolError};
use bbq_storage::Storage;

use super::SinkLedger;
use super::delivery::{self, Delivery, DeliveryParts};
use super::format::Formatter;
use super::output::{self, OpenError, Output};
use super::steps::{Now, SinkSteps};
use crate::config::SinkSpec;
use crate::retention::Retention;

/// Why a sink did not get messages that came before it was configured.
const BEFORE: &str = "before-sink";

/// See the module.
pub struct SinkOpening {
    pub(super) index: usize,
    pub(super) spec: SinkSpec,
    pub(super) spool: Arc<Spool>,
    pub(super) ledger: Arc<SinkLedger>,
    retention: Arc<Retention>,
    /// Where its file is.
    storage: Arc<dyn Storage>,
    store: CursorStore,
    /// Of the last run; none when the sink was never here.
    cursor: Option<Cursor>,
}

/// A sink that was never here begins with the oldest message that is kept. Those before it, which other sinks had, it does
/// not get: they count as dropped, so that its ledger balances.
fn first_cursor(spool: &Spool) -> Cursor {
    let places = spool.beginnings();
    let before = places.iter().fold(0_u64, |sum, place| sum.saturating_add(place.record));
    let dropped = if before > 0 { BTreeMap::from([(BEFORE.to_owned(), before)]) } else { BTreeMap::new() };
    Cursor { places, dropped, ..Cursor::default() }
}

impl SinkOpening {
    /// Reads the cursor. Files that the sink writes are reached through `storage`.
    ///
    /// # Errors
    /// Those of the cursor's file.
    pub fn new(
        index: usize,
        spec: &SinkSpec,
        spool: &Arc<Spool>,
        retention: Arc<Retention>,
        storage: Arc<dyn Storage>,
    ) -> Result<SinkOpening, SpoolError> {
        let store = CursorStore::new(spool.storage(), &spool.cursors(), &spec.name)?;
        let cursor = store.load()?;
        let first = || first_cursor(spool);
        let ledger = Arc::new(SinkLedger::of(&cursor.clone().unwrap_or_else(first)));
        let (spec, spool) = (spec.clone(), Arc::clone(spool));
        Ok(SinkOpening { index, spec, spool, ledger, retention, storage, store, cursor })
    }

    /// Opens the output, and makes it agree with the cursor: what it holds beyond that is taken back.
    pub(super) fn open_output(&self, now: Now) -> Result<Box<dyn Output>, OpenError> {
        let state = self.cursor.as_ref().map(|cursor| delivery::state_of_output(&cursor.output));
        output::open(&self.spec, &self.storage, state, now.wall)
    }

    /// Opens the output and begins.
    ///
    /// # Errors
    /// Why not, in words; try again.
    pub fn open(self, now: Now) -> Result<SinkSteps, (Box<SinkOpening>, String)> {
        match self.open_output(now) {
            Ok(output) => Ok(self.begin(output, now)),
            Err(OpenError::NotYet(error) | OpenError::Refused(error)) => {
                Err((Box::new(self), error.to_string()))
            }
        }
    }

    /// The first step puts the output's state into the cursor, before the first message is written.
    pub(super) fn begin(self, output: Box<dyn Output>, now: Now) -> SinkSteps {
        let cursor = self.cursor.unwrap_or_else(|| first_cursor(&self.spool));
        let readers = self.spool.readers(&cursor);
        let places = readers.iter().map(LaneReader::place).collect();
        let parts = DeliveryParts {
            index: self.index,
            name: self.spec.name,
            formatter: Formatter::new(self.spec.format),
            output,
            ledger: Arc::clone(&self.ledger),
            store: self.store,
            retention: self.retention,
            committed: Cursor { places, ..cursor },
        };
        SinkSteps::new(Delivery::new(parts, now), readers, self.spool, self.ledger)
    }
}
