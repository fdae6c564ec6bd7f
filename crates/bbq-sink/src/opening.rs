//! A sink that has its cursor, but not yet its output.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bbq_spool::{Cursor, CursorStore, LaneReader, Spool, SpoolError};
use bbq_storage::Storage;
use bbq_stored::{Replica, Retention};
use tracing::{error, warn};

use super::again::each_text;
use super::backlog::{BEFORE, Backlog};
use super::dead_letters::DeadLetters;
use super::driver::SinkDriver;
use super::driver_parts::DriverParts;
use super::in_flight::{InFlight, state_of_output};
use super::interface::{Now, OpenError, Sink};
use super::kind::Surplus;
use super::ledger::SinkLedger;
use super::lenses::Lenses;
use super::resend::Resender;
use super::spec::SinkSpec;

/// What to do about lines that the spool does not have.
pub const SURPLUS_REMEDY: &str = "the data directory is an older copy, or these messages were deleted from it (drop-oldest, or the sink was not configured for a \
     while), or a power failure has torn lines; compare the two files, and append what is missing";

/// See the module.
pub struct SinkOpening {
    pub(crate) index: usize,
    pub(crate) spec: SinkSpec,
    pub(crate) spool: Arc<Spool>,
    /// What the sink has delivered and lost.
    pub ledger: Arc<SinkLedger>,
    retention: Arc<Retention>,
    /// Of a sink that passes on to another server.
    pub replica: Option<Replica>,
    /// No further group is submitted while those that are not settled have so many bytes in the lanes.
    pub(crate) window_bytes: u64,
    /// The storage that the sink's files are in.
    storage: Arc<dyn Storage>,
    store: CursorStore,
    /// The cursor of the last run, or a new one. It is fixed at the start: messages that are deleted before the output opens
    /// belong to this sink, and are counted when its reader reaches their place.
    cursor: Cursor,
    lenses: Option<Lenses>,
    /// The spool had no cursor of this sink.
    is_new: bool,
}

/// The cursor of a new sink: it begins with the oldest message that is kept, or at the end. Earlier messages, which only other sinks could
/// get, count as dropped, so that the sink's ledger balances.
fn first_cursor(spool: &Spool, backlog: &Backlog) -> Cursor {
    let places = if backlog.begins_at_end() { spool.ends() } else { spool.beginnings() };
    let before = places.iter().fold(0_u64, |sum, place| sum.saturating_add(place.record));
    let dropped = if before > 0 { BTreeMap::from([(BEFORE.to_owned(), before)]) } else { BTreeMap::new() };
    Cursor { places, dropped, ..Cursor::default() }
}

impl SinkOpening {
    /// Reads the cursor. Files that the sink writes are reached through `storage`.
    ///
    /// # Errors
    /// Those of the cursor's file, and of the file with the sink's rules.
    pub fn new(
        index: usize,
        spec: &SinkSpec,
        spool: &Arc<Spool>,
        retention: Arc<Retention>,
        storage: Arc<dyn Storage>,
    ) -> Result<SinkOpening, SpoolError> {
        let store = CursorStore::new(spool.storage(), &spool.cursors(), &spec.name)?;
        let mut spec = spec.clone();
        if spec.name != store.sink() {
            let (sink, name) = (&spec.name, store.sink());
            warn!(
                sink,
                name, "this sink was renamed with bbq sink rename: write name={name} in the configuration"
            );
            store.sink().clone_into(&mut spec.name);
        }
        // They are messages that were refused: a sink can do without them.
        if let Err(why) = Resender::new(spec.clone(), spool).take_earlier(store.earlier()) {
            warn!(sink = spec.name, "{why}");
        }
        let stored = store.load()?;
        let is_new = stored.is_none();
        let takes_all = spec.target.is_next_server();
        let lenses = Lenses::open(&store, spool, stored.as_ref(), spec.rules.as_ref(), takes_all)?;
        let cursor = stored.unwrap_or_else(|| first_cursor(spool, &spec.backlog));
        // A sink that is not opened for a while says the same as before.
        let ledger = Arc::new(SinkLedger::of(&cursor, InFlight::of(&cursor).begun()));
        let spool = Arc::clone(spool);
        Ok(SinkOpening {
            index,
            spec,
            spool,
            ledger,
            retention,
            replica: None,
            window_bytes: u64::MAX,
            storage,
            store,
            cursor,
            lenses,
            is_new,
        })
    }

    /// Whether an operator has paused the sink.
    pub fn is_paused(&self) -> bool {
        self.store.is_paused()
    }

    /// What follows the orders that concern its dead letters, once it is open.
    pub fn resender(&self) -> Resender {
        Resender::new(self.spec.clone(), &self.spool)
    }

    /// Opens the output, and makes it agree with the cursor: output beyond the cursor is taken back.
    pub(crate) fn open_sink(&self, now: Now) -> Result<Box<dyn Sink>, OpenError> {
        let state = (!self.is_new).then(|| state_of_output(&self.cursor.output));
        if let (Some(state), Some(path)) = (state, self.spec.target.file()) {
            self.keep_surplus(path, state).map_err(|error| match error.kind() {
                // By another program, which goes on.
                io::ErrorKind::ResourceBusy => OpenError::Refused(error),
                _ => OpenError::NotYet(error),
            })?;
        }
        self.spec.target.open(&self.storage, state, now)
    }

    /// Keeps lines of the output that are about to be cut off, and that the spool cannot write again.
    fn keep_surplus(&self, path: &Path, state: &str) -> io::Result<()> {
        let mut again = |format, bytes, emit: &mut dyn FnMut(&[u8])| {
            let lenses = self.lenses.as_ref().map(Lenses::another);
            each_text((self.spool.readers(&self.cursor), lenses), format, bytes, emit)
        };
        let kept = self.spec.target.keep_surplus(&*self.storage, state, &mut again)?;
        let Some(Surplus { lines, kept_in }) = kept else { return Ok(()) };
        let kept_in = kept_in.display();
        let text = format!(
            "{} had {lines} lines that its cursor does not cover, and the spool does not have them: all that was behind the cursor was \
             moved to {kept_in}",
            path.display()
        );
        error!(sink = self.spec.name, lines, %kept_in, "{text}; {SURPLUS_REMEDY}");
        self.ledger.set_surplus(text);
        Ok(())
    }

    /// Opens the output and begins.
    ///
    /// # Errors
    /// The reason as a text; try again.
    pub fn open(self, now: Now) -> Result<SinkDriver, (Box<SinkOpening>, String)> {
        match self.open_sink(now) {
            Ok(sink) => Ok(self.begin(sink, now)),
            Err(OpenError::NotYet(error) | OpenError::Refused(error)) => {
                Err((Box::new(self), error.to_string()))
            }
        }
    }

    pub(crate) fn begin(self, sink: Box<dyn Sink>, now: Now) -> SinkDriver {
        let SinkOpening {
            index,
            spec,
            spool,
            ledger,
            retention,
            replica,
            window_bytes,
            store,
            cursor,
            lenses,
            ..
        } = self;
        let readers = spool.readers(&cursor);
        let places = readers.iter().map(LaneReader::place).collect();
        let committed = Cursor { places, ..cursor };
        let beside = Arc::clone(&spool);
        let dead_letters = DeadLetters::new(&spec.name, spool.directory(), spec.dead_letters_bytes, beside);
        let (name, backlog) = (spec.name, spec.backlog);
        let parts = DriverParts {
            index,
            name,
            sink,
            ledger,
            store,
            retention: Some(retention),
            replica,
            window_bytes,
            backlog,
            lenses,
            committed,
            readers,
            spool,
            dead_letters,
        };
        SinkDriver::new(parts, now)
    }
}
