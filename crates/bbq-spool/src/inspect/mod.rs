//! Reads the contents and the damage of a spool that no server writes, or of dead letters. This is for tools; a server uses
//! [`crate::Spool`].
//!
//! Invariant: nothing here changes a byte. Use it with [`ReadOnlyDisk`].

mod read_only;
mod segment;

pub use read_only::ReadOnlyDisk;
pub use segment::{Damage, DamageKind, Found, SegmentSummary};

use std::io;
use std::path::{Path, PathBuf};

use crate::limits::{LANES_MAX, RECOVERED_MAX};
use crate::segments::{path_of, start_of};
use crate::{Cursor, OpenMode, SpoolError, Storage};

/// The files of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneFiles {
    /// Which lane.
    pub lane: u32,
    directory: PathBuf,
    /// Positions of its segments, in order.
    starts: Vec<u64>,
}

/// The lanes of a data directory, in order.
///
/// # Errors
/// If a directory cannot be listed.
pub fn lanes(storage: &dyn Storage, data: &Path) -> Result<Vec<LaneFiles>, SpoolError> {
    let root = data.join("spool");
    let names = storage.list(&root).map_err(SpoolError::io("list", &root))?;
    let mut indices: Vec<u32> =
        names.iter().filter_map(|name| name.strip_prefix("lane-")?.parse().ok()).collect();
    indices.retain(|index| *index < LANES_MAX);
    indices.sort_unstable();
    let mut lanes = Vec::new();
    for lane in indices {
        let directory = root.join(format!("lane-{lane}"));
        let names = storage.list(&directory).map_err(SpoolError::io("list", &directory))?;
        let mut starts: Vec<u64> = names.iter().filter_map(|name| start_of(name)).collect();
        starts.retain(|start| *start <= RECOVERED_MAX);
        starts.sort_unstable();
        lanes.push(LaneFiles { lane, directory, starts });
    }
    Ok(lanes)
}

impl LaneFiles {
    /// Reads all segments in order, and calls `found` for each finding. What was deleted since it was listed is left out.
    ///
    /// # Errors
    /// Shortages of the system, which are no fault of the files. A segment that cannot be read is [`DamageKind::Unreadable`].
    pub fn read(
        &self,
        storage: &dyn Storage,
        found: &mut dyn FnMut(&Path, &Found<'_>) -> io::Result<()>,
    ) -> io::Result<Vec<SegmentSummary>> {
        let mut summaries = Vec::new();
        let mut record = None;
        for (index, start) in self.starts.iter().enumerate() {
            let path = path_of(&self.directory, *start);
            let next = self.starts.get(index + 1).copied();
            let next_record = next.and_then(|next| {
                let file = storage.open(&path_of(&self.directory, next), OpenMode::Existing).ok()?;
                Some(crate::recovery::read_header(&*file, next).ok()??.0.first_record)
            });
            let place = segment::Place { lane: self.lane, start: *start, next, record, next_record };
            let summary = segment::read(storage, &path, &place, &mut |what| found(&path, what))?;
            record = summary.as_ref().map(|summary| summary.end_record);
            summaries.extend(summary);
        }
        Ok(summaries)
    }
}

/// The state of a small file with a checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmallFile<T> {
    /// The file does not exist.
    Missing,
    /// The file is whole.
    Whole(T),
    /// The file is damaged or unreadable, for this reason.
    Damaged(String),
}

/// Reads a file of [`crate::sealed`] of this kind.
#[must_use]
pub fn sealed(storage: &dyn Storage, path: &Path, kind: &str) -> SmallFile<String> {
    match storage.read(path) {
        Ok(bytes) => {
            match std::str::from_utf8(&bytes).ok().and_then(|text| crate::sealed::open(kind, text)) {
                Some(body) => SmallFile::Whole(body.to_owned()),
                None => SmallFile::Damaged("its checksum does not match".to_owned()),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => SmallFile::Missing,
        Err(error) => SmallFile::Damaged(error.to_string()),
    }
}

/// The cursor file of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorFile {
    /// The file.
    pub path: PathBuf,
    /// Name of the sink. If the file is damaged, the name of the file.
    pub sink: String,
    /// How far the sink is.
    pub cursor: SmallFile<Cursor>,
}

/// The cursors of a data directory.
///
/// # Errors
/// If the directory exists and cannot be listed.
pub fn cursors(storage: &dyn Storage, data: &Path) -> Result<Vec<CursorFile>, SpoolError> {
    let directory = data.join("cursors");
    let mut names = match storage.list(&directory) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(SpoolError::io("list", directory)(error)),
    };
    names.retain(|name| name.ends_with(crate::cursor::SUFFIX));
    names.sort_unstable();
    let read = |name: String| {
        let path = directory.join(&name);
        let text = sealed(storage, &path, "cursor");
        let (sink, cursor) = match text {
            SmallFile::Whole(body) => match Cursor::decode_body(&body) {
                Some(cursor) => {
                    let sink = body.lines().find_map(|line| line.strip_prefix("sink "));
                    (sink.map(str::to_owned), SmallFile::Whole(cursor))
                }
                None => (None, SmallFile::Damaged("its lines are not those of a cursor".to_owned())),
            },
            SmallFile::Missing => (None, SmallFile::Missing),
            SmallFile::Damaged(why) => (None, SmallFile::Damaged(why)),
        };
        CursorFile { sink: sink.unwrap_or(name), path, cursor }
    };
    Ok(names.into_iter().map(read).collect())
}
