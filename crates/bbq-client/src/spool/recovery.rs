//! Finds what an earlier sender has left in a directory, and whether its stream may continue.
//!
//! A number that a server may know as another record must not be used again. If only the process ended, at any byte, the page cache has
//! all segments and progress files as they were written, and the stream continues. In all other cases (a restart of the system, damage,
//! a missing record that was sent, an earlier release) it is unknown what was lost. Then stored records keep their numbers, and new
//! records get a new stream.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bbq_storage::Storage;

use super::extent::Extent;
use super::losses::Losses;
use super::progress::{Progress, ReplacedStream, SavedProgress};
use super::scan;
use super::segment::{self, Found, Segment, SegmentHeader};
use crate::environment::{BOOT_UNKNOWN, Boot};
use crate::numbering::Numbering;

/// The segments of a directory.
#[derive(Default)]
pub(super) struct StoredSegments {
    pub(super) segments: VecDeque<Arc<Segment>>,
    pub(super) extents: Vec<Extent>,
    /// Where the last whole record ends in the last segment.
    pub(super) end: u64,
    /// Number of the next record.
    pub(super) next: u64,
    /// The streams of the segments, in order. A stream ends with its last stored record, because a lost record behind it may have
    /// belonged to another stream.
    streams: VecDeque<Numbering>,
    /// Whether the last segment has no record.
    pub(super) last_is_empty: bool,
    /// Records that cannot be read.
    pub(super) losses: Losses,
    /// Why new records need a new stream: numbers may have been used that are not found here.
    pub(super) new_stream_reason: Option<String>,
}

impl StoredSegments {
    /// Reads all segments. A segment in which only damage is found is set aside.
    pub(super) fn read(
        storage: &dyn Storage,
        directory: &Path,
        extent_bytes: u64,
    ) -> Result<StoredSegments, String> {
        let mut stored = StoredSegments { next: 1, ..StoredSegments::default() };
        let paths = segment::paths(storage, directory).map_err(|error| format!("cannot read it: {error}"))?;
        for path in paths {
            let with_path = |error: io::Error| format!("{}: {error}", path.display());
            let before = stored.extents.len();
            let seen = scan::scan(storage, &path, extent_bytes, &mut stored.extents).map_err(with_path)?;
            // Records of it that are known by their numbers.
            let mut known = Vec::new();
            let aside = match seen {
                Found::Empty => continue,
                Found::Damaged(why) => why,
                Found::Segment(found) if found.segment.header.first < stored.next => {
                    stored.extents.truncate(before);
                    "another segment has the same records"
                }
                Found::Segment(found) if !found.damaged.is_empty() && found.is_empty() => {
                    known = found.damaged;
                    "its first record is damaged, and the records after it cannot be found"
                }
                Found::Segment(found) => {
                    stored.add(found);
                    continue;
                }
            };
            let now = segment::set_aside(storage, &path).map_err(with_path)?;
            let told = format!("{}: {aside}; it is {} now", path.display(), now.display());
            stored.losses.add_damaged(&known, true, told.clone());
            stored.require_new_stream(told);
        }
        Ok(stored)
    }

    fn require_new_stream(&mut self, why: String) {
        self.new_stream_reason.get_or_insert(why);
    }

    fn add(&mut self, found: scan::ScannedSegment) {
        let SegmentHeader { stream, first, base } = found.segment.header;
        let path = found.segment.path.display().to_string();
        if found.segment.is_earlier {
            self.require_new_stream(format!("{path}: it is of an earlier release"));
        }
        // A gap before the first segment of a stream was already counted when that stream began.
        if self.segments.back().is_some_and(|last| last.header.stream == stream) && first > self.next {
            let why = format!("{path}: records before it are missing");
            self.losses.add_missing(self.next, first - 1, why.clone());
            self.require_new_stream(why);
        }
        if !found.damaged.is_empty() {
            let why = format!("{path}: records are damaged");
            self.losses.add_damaged(&found.damaged, found.is_cut, why.clone());
            self.require_new_stream(why);
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

    /// The streams of the segments and of new records, in order.
    pub(super) fn numberings(&self, next: SegmentHeader) -> VecDeque<Numbering> {
        let mut numberings = self.streams.clone();
        match numberings.back_mut() {
            Some(last) if (last.stored, last.base) == (next.stream, next.base) => last.until = u64::MAX,
            _ => numberings.push_back(Numbering::begin(next.stream, next.base)),
        }
        numberings
    }
}

/// The progress of a destination, and its streams.
#[derive(Default)]
pub(crate) struct RecoveredDestination {
    pub(crate) acknowledged: u64,
    /// The id of the server that acknowledged them; 0 if unknown.
    pub(crate) acknowledged_by: u32,
    /// The last record that was sent in the current stream. It is saved before the record is sent, unless the disk refuses that.
    pub(crate) sent: u64,
    pub(crate) epoch: u64,
    pub(crate) numberings: VecDeque<Numbering>,
}

/// The progress files of all destinations.
pub(super) struct ProgressFiles {
    pub(super) files: Vec<Progress>,
    saved: Vec<SavedProgress>,
}

impl ProgressFiles {
    /// Reads the files, and compares them with the stored segments.
    pub(super) fn read(
        storage: &dyn Storage,
        directory: &Path,
        names: &[String],
        boot: Boot,
        stored: &mut StoredSegments,
    ) -> io::Result<ProgressFiles> {
        let mut progress = ProgressFiles { files: Vec::new(), saved: Vec::new() };
        let mut no_file = true;
        for name in names {
            let (file, read) = Progress::open(storage, directory, name)?;
            no_file &= read.is_new;
            // A file that did not exist belongs to a server that was not named before, and nothing was sent to that server.
            if let Some(why) = read.problem {
                stored.require_new_stream(why.to_owned());
            } else if read.is_copy {
                // What is stored here the original has stored, too. What follows has other numbers there.
                stored
                    .require_new_stream("it is a copy of another spool, or was restored from one".to_owned());
            } else if !read.is_new && (boot == BOOT_UNKNOWN || read.saved.boot != boot) {
                stored.require_new_stream(
                    "the system was restarted, and may have lost what was written last".to_owned(),
                );
            }
            progress.files.push(file);
            progress.saved.push(read.saved);
        }
        progress.note_losses(boot, stored);
        if no_file && !stored.segments.is_empty() {
            stored.require_new_stream("the progress of its servers is missing".to_owned());
        }
        if !no_file && stored.segments.is_empty() {
            stored.require_new_stream("its segments are missing".to_owned());
        }
        Ok(progress)
    }

    /// Compares what was sent and acknowledged with what is stored. A number that was sent is not used again.
    fn note_losses(&self, boot: Boot, stored: &mut StoredSegments) {
        let (used, acknowledged) = (self.used(), self.acknowledged_by_all());
        let begun = self.saved.iter().map(|saved| saved.segment).max().unwrap_or(0);
        let last = stored.segments.back().map_or(0, |last| last.header.first);
        if begun > last && !stored.losses.is_open() {
            let why = format!("the segment that began with record {begun} is missing");
            stored.losses.add_unknown(why.clone());
            stored.require_new_stream(why);
        }
        if used >= stored.next {
            let why =
                format!("records up to {used} were sent, and those from {} on are missing", stored.next);
            stored.losses.add_sent(stored.next, used, why.clone());
            stored.require_new_stream(why);
        }
        stored.next = stored.next.max(used + 1);
        // A segment goes when everything in it is acknowledged, which is saved before. After a power failure that may be lost; and to a
        // server that was named later nothing of it is owed. What an earlier stream lost was told when this one began.
        let (first, base) =
            stored.segments.front().map_or((0, 0), |first| (first.header.first, first.header.base));
        let most = self.saved.iter().map(|saved| saved.acknowledged).max().unwrap_or(0).max(base);
        let is_exact = boot != BOOT_UNKNOWN && self.saved.iter().all(|saved| saved.boot == boot);
        if is_exact && first > most + 1 {
            let why = format!("the segments before record {first} are missing");
            stored.losses.add_missing_before(most + 1, first - 1, why);
        }
        stored.losses.forget(acknowledged);
    }

    /// The last record that a server may know.
    pub(super) fn used(&self) -> u64 {
        self.saved.iter().map(|saved| saved.acknowledged.max(saved.sent)).max().unwrap_or(0)
    }

    /// The last record that every destination has acknowledged.
    pub(super) fn acknowledged_by_all(&self) -> u64 {
        self.saved.iter().map(|saved| saved.acknowledged).min().unwrap_or(0)
    }

    /// Where each destination continues. Saves `boot` in the files, and the first record of the segment in which the next ones go.
    pub(super) fn begin(
        &self,
        boot: Boot,
        segment: u64,
        numberings: &VecDeque<Numbering>,
    ) -> Vec<RecoveredDestination> {
        let begin = |(file, saved): (&Progress, &SavedProgress)| {
            file.begin(SavedProgress { boot, segment, ..*saved });
            let mut numberings = numberings.clone();
            if let Some(ReplacedStream { stream, base, stored }) = saved.replaced
                && let Some(at) = numberings.iter().position(|numbering| numbering.stored == stored)
            {
                let until = numberings[at].until;
                numberings.drain(..=at);
                numberings.push_front(Numbering { stream, base, until, stored });
            }
            RecoveredDestination {
                acknowledged: saved.acknowledged,
                acknowledged_by: saved.server,
                sent: saved.sent,
                epoch: saved.epoch,
                numberings,
            }
        };
        self.files.iter().zip(&self.saved).map(begin).collect()
    }
}
