//! How a spool is opened.

use std::path::PathBuf;
use std::time::Duration;

use crate::SpoolError;
use crate::limits::{
    FLUSH_INTERVAL_DEFAULT, HOT_BYTES_DEFAULT, LANE_BUFFER_BYTES_MAX, LANES_MAX, SEGMENT_BYTES_DEFAULT,
    SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_PER_LANE_MIN, SOURCES_MAX, SPOOL_BYTES_DEFAULT,
};

/// How to open a spool.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// The data directory; lanes go to `spool/lane-N` in it, cursors to `cursors`.
    pub directory: PathBuf,
    /// Lanes that are written. Other lanes in the directory are read to their end.
    pub lanes: u32,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of all segments.
    pub bytes_max: u64,
    /// How long messages that no client waits for may collect.
    pub flush_interval: Duration,
    /// Bytes of the group that a lane collects while another one is written; at most [`LANE_BUFFER_BYTES_MAX`].
    pub lane_buffer_bytes_max: usize,
    /// Bytes of the newest groups of a lane that stay in memory for readers that keep up; 0 for none.
    pub hot_bytes_max: usize,
    /// The sources; an envelope's `source` is an index into them.
    pub sources: Vec<Source>,
    /// The writer of each lane is a thread with this name and the lane's number.
    pub thread_name: &'static str,
}

/// A source of messages, such as a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Whether the oldest messages are deleted, read or not, if there is no room for new ones of this source.
    pub drops_oldest: bool,
}

impl From<&str> for Source {
    fn from(name: &str) -> Source {
        Source { name: name.to_owned(), drops_oldest: false }
    }
}

impl SpoolOptions {
    /// The defaults for a directory.
    #[must_use]
    pub fn new(directory: PathBuf, lanes: u32, sources: Vec<Source>) -> SpoolOptions {
        SpoolOptions {
            directory,
            lanes,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            bytes_max: SPOOL_BYTES_DEFAULT,
            flush_interval: FLUSH_INTERVAL_DEFAULT,
            lane_buffer_bytes_max: LANE_BUFFER_BYTES_MAX,
            hot_bytes_max: HOT_BYTES_DEFAULT,
            sources,
            thread_name: "lane",
        }
    }

    /// Checks each value, and the sizes against each other.
    ///
    /// # Errors
    /// [`SpoolError::OutOfRange`] or [`SpoolError::LimitTooSmall`].
    pub fn check(&self) -> Result<(), SpoolError> {
        let ranges = [
            ("spool.segment_bytes", self.segment_bytes, SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX),
            ("the number of lanes", u64::from(self.lanes), 0..=u64::from(LANES_MAX)),
            // Two names stay free, for former sources and for damaged records.
            ("the number of sources", self.sources.len() as u64, 0..=SOURCES_MAX as u64 - 2),
        ];
        for (name, found, allowed) in ranges {
            if !allowed.contains(&found) {
                return Err(SpoolError::OutOfRange {
                    name,
                    found,
                    least: *allowed.start(),
                    most: *allowed.end(),
                });
            }
        }
        let needed =
            self.segment_bytes.saturating_mul(SEGMENTS_PER_LANE_MIN).saturating_mul(u64::from(self.lanes));
        if self.bytes_max >= needed {
            return Ok(());
        }
        Err(SpoolError::LimitTooSmall {
            bytes_max: self.bytes_max,
            needed,
            lanes: u64::from(self.lanes),
            per_lane: SEGMENTS_PER_LANE_MIN,
            segment_bytes: self.segment_bytes,
        })
    }
}
