//! The content of a data directory, in the shape of the JSON of `bbq spool check`. Names are only added.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bbq_spool::inspect::{self, DamageKind, Found, ReadOnlyDisk, SmallFile};
use bbq_spool::{LanePlace, Storage};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Survey {
    pub(super) damaged: bool,
    pub(super) lanes: Vec<Lane>,
    pub(super) cursors: Vec<SinkCursor>,
    /// The checkpoint of streams.
    pub(super) streams: Sealed,
    /// Counts of what was dropped before the spool.
    pub(super) ledger: Sealed,
    pub(super) quarantine: Quarantine,
}

#[derive(Serialize)]
pub(super) struct Lane {
    pub(super) lane: u32,
    pub(super) segments: u64,
    pub(super) bytes: u64,
    pub(super) groups: u64,
    pub(super) batches: u64,
    /// Records in undamaged batches.
    pub(super) records: u64,
    /// Number of the first record in the segments.
    pub(super) first_record: u64,
    /// Number of records that the lane has ever had.
    pub(super) end_record: u64,
    pub(super) end_position: u64,
    pub(super) damage: Vec<Piece>,
}

/// Damaged bytes of a segment.
#[derive(Serialize)]
pub(super) struct Piece {
    /// `damaged`, `unreadable`, `missing` (zeros, or no bytes at all) or `torn` (never acknowledged; the next start removes it).
    pub(super) kind: &'static str,
    pub(super) file: PathBuf,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Records that are lost with the bytes.
    pub(super) records: u64,
    /// Whether the quarantine has a copy of the bytes.
    pub(super) set_aside: bool,
    #[serde(skip)]
    pub(super) segment_start: u64,
}

impl Piece {
    pub(super) fn is_damage(&self) -> bool {
        match self.kind {
            "torn" => false,
            "missing" => !self.set_aside,
            _ => true,
        }
    }
}

#[derive(Serialize)]
pub(super) struct SinkCursor {
    pub(super) sink: String,
    pub(super) file: PathBuf,
    /// What is wrong with the file.
    pub(super) damage: Option<String>,
    pub(super) delivered: u64,
    pub(super) lanes: Vec<Place>,
}

#[derive(Serialize)]
pub(super) struct Place {
    pub(super) lane: u32,
    pub(super) position: u64,
    pub(super) record: u64,
    /// Records of the lane that the sink has not taken.
    pub(super) behind: u64,
}

#[derive(Serialize)]
pub(super) struct Sealed {
    pub(super) file: PathBuf,
    /// `whole`, `missing` or `damaged`.
    pub(super) state: &'static str,
    pub(super) damage: Option<String>,
    /// Number of streams, or of reasons for drops.
    pub(super) entries: u64,
}

#[derive(Serialize)]
pub(super) struct Quarantine {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Survey {
    /// Reads a data directory that no server uses.
    pub(super) fn make(data: &Path) -> anyhow::Result<Survey> {
        let storage: &dyn Storage = &ReadOnlyDisk;
        let mut lanes = Vec::new();
        for files in inspect::lanes(storage, data)? {
            lanes.push(lane(storage, &files)?);
        }
        let set_aside = storage.list(&data.join("quarantine")).unwrap_or_default();
        for lane in &mut lanes {
            for piece in lane.damage.iter_mut().filter(|piece| piece.kind == "missing") {
                let copy = format!("lane-{}-{:020}-", lane.lane, piece.segment_start + piece.offset);
                piece.set_aside = set_aside.iter().any(|name| name.starts_with(&copy));
            }
        }
        let ends: BTreeMap<u32, u64> = lanes.iter().map(|lane| (lane.lane, lane.end_record)).collect();
        let cursors = inspect::cursors(storage, data)?.into_iter().map(|file| cursor(file, &ends)).collect();
        let mut survey = Survey {
            damaged: false,
            lanes,
            cursors,
            streams: sealed(storage, data.join("streams"), "streams", "stream "),
            ledger: sealed(storage, data.join("ledger"), "ledger", "dropped "),
            quarantine: quarantine(&data.join("quarantine")),
        };
        survey.damaged = survey.lanes.iter().any(|lane| lane.damage.iter().any(Piece::is_damage))
            || survey.cursors.iter().any(|cursor| cursor.damage.is_some())
            || [&survey.streams, &survey.ledger].iter().any(|file| file.damage.is_some());
        Ok(survey)
    }
}

fn lane(storage: &dyn Storage, files: &inspect::LaneFiles) -> anyhow::Result<Lane> {
    let mut damage = Vec::new();
    let mut note = |path: &Path, found: &Found<'_>| {
        if let Found::Damage(piece) = found {
            let name = path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            damage.push(Piece {
                kind: name_of(piece.kind),
                file: path.to_owned(),
                offset: piece.offset,
                bytes: piece.bytes,
                records: piece.records,
                set_aside: false,
                segment_start: name.unwrap_or_default(),
            });
        }
        Ok(())
    };
    let segments = files.read(storage, &mut note).with_context(|| format!("lane {}", files.lane))?;
    let sum = |count: fn(&inspect::SegmentSummary) -> u64| segments.iter().map(count).sum::<u64>();
    Ok(Lane {
        lane: files.lane,
        segments: segments.len() as u64,
        bytes: sum(|segment| segment.bytes),
        groups: sum(|segment| segment.groups),
        batches: sum(|segment| segment.batches),
        records: sum(|segment| segment.records),
        first_record: segments.first().map_or(0, |segment| segment.first_record),
        end_record: segments.last().map_or(0, |segment| segment.end_record),
        end_position: segments.last().map_or(0, |segment| segment.end),
        damage,
    })
}

pub(super) fn name_of(kind: DamageKind) -> &'static str {
    match kind {
        DamageKind::Damaged => "damaged",
        DamageKind::Unreadable => "unreadable",
        DamageKind::Missing => "missing",
        DamageKind::Torn => "torn",
    }
}

fn cursor(file: inspect::CursorFile, ends: &BTreeMap<u32, u64>) -> SinkCursor {
    let (cursor, damage) = match file.cursor {
        SmallFile::Whole(cursor) => (cursor, None),
        SmallFile::Missing => Default::default(),
        SmallFile::Damaged(why) => (bbq_spool::Cursor::default(), Some(why)),
    };
    let place = |(lane, end): (&u32, &u64)| {
        let LanePlace { position, record, .. } = cursor.place(*lane);
        Place { lane: *lane, position, record, behind: end.saturating_sub(record) }
    };
    let lanes = ends.iter().map(place).collect();
    SinkCursor { sink: file.sink, file: file.path, damage, delivered: cursor.delivered, lanes }
}

fn sealed(storage: &dyn Storage, file: PathBuf, kind: &str, prefix: &str) -> Sealed {
    let (state, damage, entries) = match inspect::sealed(storage, &file, kind) {
        SmallFile::Whole(body) => {
            ("whole", None, body.lines().filter(|line| line.starts_with(prefix)).count() as u64)
        }
        SmallFile::Missing => ("missing", None, 0),
        SmallFile::Damaged(why) => ("damaged", Some(why), 0),
    };
    Sealed { file, state, damage, entries }
}

fn quarantine(directory: &Path) -> Quarantine {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut quarantine = Quarantine { files: 0, bytes: 0 };
    for metadata in entries.filter_map(|entry| entry.metadata().ok()) {
        quarantine.files += 1;
        quarantine.bytes += metadata.len();
    }
    quarantine
}
