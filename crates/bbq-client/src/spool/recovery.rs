//! What an earlier sender left in a directory, and whether its stream may go on.
//!
//! A number that a server may know for another record must not be given again. After the end of a process at any byte the
//! segments and the progress files agree, as the page cache has both: the stream goes on. After anything else (another run of
//! the system, damage, a record that was sent and is not there, an earlier release) nobody can tell what was lost: what is
//! there keeps its numbers, and what comes in gets a new stream.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bbq_storage::Storage;

use super::extent::Extent;
use super::progress::{self, Known, Progress};
use super::scan::{self, Scan};
use super::segment::{self, Segment, SegmentHeader};
use crate::environment::{BOOT_UNKNOWN, Boot};
use crate::numbering::Numbering;

/// The segments of a directory.
#[derive(Default)]
pub(super) struct StoredSegments {
    pub(super) segments: VecDeque<Arc<Segment>>,
    pub(super) extents: Vec<Extent>,
    /// Where the last one's last whole record ends.
    pub(super) end: u64,
    /// Number of the record that comes next.
    pub(super) next: u64,
    /// The streams of the segments, in order. Each goes up to its last record that is there: what was sent behind it and is not
    /// there any more may have been another stream's.
    streams: VecDeque<Numbering>,
    /// The last one has no record.
    pub(super) last_is_empty: bool,
    /// Records that cannot be read.
    pub(super) damaged: u64,
    /// Why numbers may have been used that are not found here.
    pub(super) doubt: Option<String>,
}

impl StoredSegments {
    /// Reads all segments. One in which nothing but damage is found is set aside.
    pub(super) fn read(
        storage: &dyn Storage,
        directory: &Path,
        extent_bytes: u64,
    ) -> Result<StoredSegments, String> {
        let mut stored = StoredSegments { next: 1, ..StoredSegments::default() };
        let paths = segment::paths(storage, directory).map_err(|error| format!("cannot read it: {error}"))?;
        for path in paths {
            let told = |error: io::Error| format!("{}: {error}", path.display());
            let before = stored.extents.len();
            let seen = scan::scan(storage, &path, extent_bytes, &mut stored.extents).map_err(told)?;
            let aside = match seen {
                Scan::Empty => continue,
                Scan::Damaged(why) => why,
                Scan::Segment(found) if found.segment.header.first < stored.next => {
                    stored.extents.truncate(before);
                    "it has records that another one has, too"
                }
                Scan::Segment(found) if found.damaged > 0 && found.is_empty() => {
                    stored.damaged += found.damaged;
                    "its first record is damaged, and those behind it cannot be told"
                }
                Scan::Segment(found) => {
                    stored.add(found);
                    continue;
                }
            };
            let now = segment::set_aside(storage, &path).map_err(told)?;
            stored.doubt(format!("{}: {aside}; it is {} now", path.display(), now.display()));
        }
        Ok(stored)
    }

    fn doubt(&mut self, why: String) {
        self.doubt.get_or_insert(why);
    }

    fn add(&mut self, found: scan::ScannedSegment) {
        let SegmentHeader { stream, first, base } = found.segment.header;
        let path = found.segment.path.display().to_string();
        if found.segment.is_earlier() {
            self.doubt(format!("{path}: it is of an earlier release"));
        }
        if found.damaged > 0 {
            self.doubt(format!("{path}: records are damaged"));
        }
        self.damaged += found.damaged;
        // Where a stream begins, what was lost before it is known.
        if self.segments.back().is_some_and(|last| last.header.stream == stream) && first > self.next {
            self.damaged += first - self.next;
            self.doubt(format!("{path}: records before it are not there"));
        }
        (self.end, self.next, self.last_is_empty) = (found.end, found.next, found.is_empty());
        if self.streams.back().is_none_or(|last| (last.stored, last.base) != (stream, base)) {
            self.streams.push_back(Numbering::begin(stream, base));
        }
        if let Some(last) = self.streams.back_mut() {
            last.until = found.next - 1;
        }
        self.segments.push_back(found.segment);
    }

    /// The streams of the segments and of what comes in, in order.
    pub(super) fn numberings(&self, comes_in: SegmentHeader) -> VecDeque<Numbering> {
        let mut numberings = self.streams.clone();
        match numberings.back_mut() {
            Some(last) if (last.stored, last.base) == (comes_in.stream, comes_in.base) => {
                last.until = u64::MAX
            }
            _ => numberings.push_back(Numbering::begin(comes_in.stream, comes_in.base)),
        }
        numberings
    }
}

/// How far a destination was, and what its servers call its records.
pub(crate) struct RecoveredDestination {
    pub(crate) acknowledged: u64,
    /// Which server that was; 0: unknown.
    pub(crate) acknowledged_by: u32,
    pub(crate) sent: u64,
    pub(crate) epoch: u64,
    pub(crate) numberings: VecDeque<Numbering>,
}

/// The progress files of all destinations.
pub(super) struct ProgressFiles {
    pub(super) files: Vec<Progress>,
    known: Vec<Known>,
}

impl ProgressFiles {
    /// Reads them, and compares them with what is stored.
    pub(super) fn read(
        storage: &dyn Storage,
        directory: &Path,
        names: &[String],
        boot: Boot,
        stored: &mut StoredSegments,
    ) -> io::Result<ProgressFiles> {
        let mut destinations = ProgressFiles { files: Vec::new(), known: Vec::new() };
        let mut no_file = true;
        for name in names {
            let (file, read) = Progress::open(storage, directory, name)?;
            no_file &= read.is_new;
            // One that is new has a server that was not named before, and to which nothing was sent.
            if let Some(why) = read.doubt {
                stored.doubt(why.to_owned());
            } else if !read.is_new && (boot == BOOT_UNKNOWN || read.known.boot != boot) {
                stored.doubt(
                    "the system was started since, and may have lost what was written last".to_owned(),
                );
            }
            destinations.files.push(file);
            destinations.known.push(read.known);
        }
        let used = destinations.used();
        if used >= stored.next {
            stored.doubt(format!(
                "records up to {used} were sent, and those from {} on are not there",
                stored.next
            ));
        }
        if no_file && !stored.segments.is_empty() {
            stored.doubt("what it knew of its servers is not there".to_owned());
        }
        if !no_file && stored.segments.is_empty() {
            stored.doubt("its segments are not there".to_owned());
        }
        Ok(destinations)
    }

    /// The last record of which a server may know.
    pub(super) fn used(&self) -> u64 {
        self.known.iter().map(|known| known.acknowledged.max(known.sent)).max().unwrap_or(0)
    }

    /// What every destination's servers have.
    pub(super) fn acknowledged_by_all(&self) -> u64 {
        self.known.iter().map(|known| known.acknowledged).min().unwrap_or(0)
    }

    /// Where each destination goes on. `boot` is what the files say from now on.
    pub(super) fn begin(&self, boot: Boot, numberings: &VecDeque<Numbering>) -> Vec<RecoveredDestination> {
        let begin = |(file, known): (&Progress, &Known)| {
            file.begin(Known { boot, ..*known });
            let mut numberings = numberings.clone();
            if let Some(renamed) = known.renamed
                && let Some(at) = numberings.iter().position(|numbering| numbering.stored == renamed.stored)
            {
                let until = numberings[at].until;
                numberings.drain(..=at);
                let progress::Renamed { stream, base, stored } = renamed;
                numberings.push_front(Numbering { stream, base, until, stored });
            }
            RecoveredDestination {
                acknowledged: known.acknowledged,
                acknowledged_by: known.server,
                sent: known.sent,
                epoch: known.epoch,
                numberings,
            }
        };
        self.files.iter().zip(&self.known).map(begin).collect()
    }
}
