//! The threads that read files.
//!
//! They exist before any message is taken, and begin when the workers run. They end before the workers are told to: what a reader has
//! handed over by then is appended, or it is read again by the next start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bbq_config::Config;
use bbq_intake::{ReaderLink, ReaderStore, WorkerMesh};
use bbq_observe::Parts;
use bbq_read::{Source, catalogued};
use bbq_spec::threads::{ThreadError, spawn};
use bbq_spool::Storage;
use bbq_stored::Streams;
use tracing::error;

use crate::error::StartError;

/// Where the catalogs are, in the data directory.
const CATALOGS: &str = "readers";
/// How long a reader may take to notice that it is to end. It checks after each read(2), which takes long only where a file system
/// does not respond.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two checks whether it has ended.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The readers of a start, in the order of the configuration.
#[derive(Default)]
pub(crate) struct Readers(Vec<ReaderThread>);

struct ReaderThread {
    name: String,
    thread: JoinHandle<()>,
    link: Arc<ReaderLink>,
    /// The thread begins when it receives its store, and ends when its gate is dropped. `None` once it has begun.
    gate: Option<SyncSender<ReaderStore>>,
}

/// Keeps the streams of all files that readers know, also of readers that are not configured now: they may come back.
///
/// # Errors
/// A catalog cannot be read now.
pub(crate) fn keep_streams(data: &Path, storage: &dyn Storage, streams: &Streams) -> Result<(), StartError> {
    let directory = data.join(CATALOGS);
    let failed = |error: io::Error| {
        StartError::Streams(io::Error::new(error.kind(), format!("{}: {error}", directory.display())))
    };
    streams.keep_read(catalogued(&directory, storage).map_err(failed)?);
    Ok(())
}

/// Opens the catalog of each reader. Nothing is read yet.
///
/// # Errors
/// A catalog cannot be read or created.
pub(crate) fn open(config: &Config, storage: &Arc<dyn Storage>) -> Result<Vec<Source>, StartError> {
    let directory: PathBuf = config.data.join(CATALOGS);
    let open = |spec| {
        Source::open(spec, &directory, Arc::clone(storage))
            .map_err(|source| StartError::Reader { spec: spec.text.clone(), source })
    };
    config.read.iter().map(open).collect()
}

impl Readers {
    /// Makes the threads, which wait.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(crate) fn prepare(config: &Config, readers: Vec<Source>) -> Result<Readers, StartError> {
        let mut made = Readers::default();
        for (index, (reader, spec)) in readers.into_iter().zip(&config.read).enumerate() {
            let thread = format!("read-{index}");
            let link = ReaderLink::new().map_err(|source| ThreadError { name: thread.clone(), source })?;
            let (gate, begin) = sync_channel::<ReaderStore>(1);
            let work = move || {
                if let Ok(store) = begin.recv() {
                    reader.run(store);
                }
            };
            let (name, gate) = (spec.source.clone(), Some(gate));
            made.0.push(ReaderThread { name, thread: spawn(thread, work)?, link, gate });
        }
        Ok(made)
    }

    /// Lets them read.
    pub(crate) fn begin(&mut self, parts: &Parts, mesh: &WorkerMesh) {
        for (index, reader) in self.0.iter_mut().enumerate() {
            let link = Arc::clone(&reader.link);
            let store = ReaderStore::new(index, mesh.clone(), Arc::clone(&parts.streams), link);
            if let Some(gate) = reader.gate.take() {
                // The thread waits for its store.
                let _taken = gate.send(store);
            }
        }
    }

    /// The name of a thread that has ended although nobody told it to.
    pub(crate) fn ended_thread(&self) -> Option<&str> {
        let ended = self.0.iter().find(|reader| reader.thread.is_finished())?;
        ended.thread.thread().name()
    }

    /// Ends the threads, whether they have begun or not. Returns `false` if one panicked or is stuck.
    pub(crate) fn end(mut self) -> bool {
        for reader in &mut self.0 {
            reader.gate = None;
            reader.link.stop();
        }
        let deadline = Instant::now() + END_PATIENCE;
        while self.0.iter().any(|reader| !reader.thread.is_finished()) && Instant::now() < deadline {
            std::thread::park_timeout(END_CHECK_INTERVAL);
        }
        let mut in_order = true;
        for ReaderThread { name, thread, link, .. } in self.0 {
            if thread.is_finished() {
                in_order &= thread.join().is_ok();
            } else {
                in_order = false;
                leave_behind(&link);
                // It hands nothing over any more, as its workers are gone.
                let (reader, thread) = (name, thread.thread().name());
                error!(
                    thread,
                    reader,
                    "the reader is stuck in a file and ends with the process; the next start reads on"
                );
            }
        }
        in_order
    }
}

/// Keeps a reader that is stuck from the catalog of the next start. A catalog that it is just writing gets the time to be written.
fn leave_behind(link: &ReaderLink) {
    let deadline = Instant::now() + END_PATIENCE;
    while !link.leave_behind() && Instant::now() < deadline {
        std::thread::park_timeout(END_CHECK_INTERVAL);
    }
}
