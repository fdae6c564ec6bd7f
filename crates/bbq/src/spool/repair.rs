//! `bbq spool repair`: sets damaged data aside.
//!
//! Invariant: nothing is overwritten before a copy of it is durable in the quarantine directory, and nothing is deleted.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bbq_spool::{DirectoryLock, DiskStorage, OpenMode, Storage};

use super::survey::{Piece, Survey};
use crate::arguments::SpoolRepairArguments;
use crate::outcome::Outcome;

/// The suffix of files in the quarantine.
const SUFFIX: &str = "set-aside";
/// Names that are tried for one file, so that the search has an end.
const NAMES_MAX: u32 = 1000;

pub(super) fn run(arguments: &SpoolRepairArguments) -> anyhow::Result<Outcome> {
    let data = &arguments.directory;
    let _own = DirectoryLock::take(data)?;
    let survey = Survey::make(data)?;
    let storage: &dyn Storage = &DiskStorage;
    let quarantine = data.join("quarantine");
    storage.create_dir_all(&quarantine).with_context(|| format!("cannot create {}", quarantine.display()))?;
    let mut out = io::stdout().lock();
    let (mut set_aside, mut left) = (0, 0);
    for lane in &survey.lanes {
        for piece in lane.damage.iter().filter(|piece| piece.is_damage()) {
            if piece.kind != "damaged" {
                left += 1;
                writeln!(
                    out,
                    "{} at {}: {} records are {}, and there are no bytes to set aside; a server skips and counts them",
                    piece.file.display(),
                    piece.offset,
                    piece.records,
                    piece.kind
                )?;
                continue;
            }
            let copy = set_bytes_aside(storage, &quarantine, lane.lane, piece)?;
            set_aside += 1;
            writeln!(
                out,
                "{} at {}: {} bytes are copied to {} and zeroed; {} records in them are lost, and count as damaged in sinks that have \
                 not passed them",
                piece.file.display(),
                piece.offset,
                piece.bytes,
                copy.display(),
                piece.records
            )?;
        }
    }
    let kept: u64 = survey.lanes.iter().map(|lane| lane.end_record.saturating_sub(lane.first_record)).sum();
    let cursors = survey.cursors.iter().filter(|cursor| cursor.damage.is_some());
    let cursors = cursors.map(|cursor| {
        (
            &cursor.file,
            format!("its sink begins again at the oldest message: up to {kept} messages are delivered twice"),
        )
    });
    let streams = survey.streams.damage.as_ref().map(|_| {
        let cost = "the segments are read instead; messages that bbq clients send again are stored twice if no segment has them any longer";
        (&survey.streams.file, cost.to_owned())
    });
    let ledger =
        survey.ledger.damage.as_ref().map(|_| {
            (&survey.ledger.file, "messages dropped before the spool are counted from zero".to_owned())
        });
    for (file, cost) in cursors.chain(streams).chain(ledger) {
        let moved_to = set_file_aside(storage, &quarantine, file)?;
        set_aside += 1;
        writeln!(out, "{} is moved to {}; {cost}", file.display(), moved_to.display())?;
    }
    match (set_aside, left) {
        (0, 0) => writeln!(out, "nothing is damaged, and nothing was changed")?,
        (_, 0) => writeln!(out, "{set_aside} pieces were set aside")?,
        _ => writeln!(out, "{set_aside} pieces were set aside, {left} were left")?,
    }
    Ok(if left > 0 { Outcome::Failed } else { Outcome::Done })
}

/// Copies damaged bytes of a segment, and zeroes them when the copy is durable.
fn set_bytes_aside(
    storage: &dyn Storage,
    quarantine: &Path,
    lane: u32,
    piece: &Piece,
) -> anyhow::Result<PathBuf> {
    let position = piece.segment_start + piece.offset;
    let name = format!("lane-{lane}-{position:020}-{}", piece.bytes);
    let context = || format!("cannot set aside {} bytes of {}", piece.bytes, piece.file.display());
    let copy = free_name(storage, quarantine, &name).with_context(context)?;
    let file = storage.open(&piece.file, OpenMode::Existing).with_context(context)?;
    let mut bytes = vec![0; usize::try_from(piece.bytes).unwrap_or(usize::MAX)];
    let read = file.read_at(piece.offset, &mut bytes).with_context(context)?;
    anyhow::ensure!(read == bytes.len(), "{} became shorter meanwhile", piece.file.display());
    storage.replace(&copy, &bytes).with_context(context)?;
    bytes.fill(0);
    file.write_all_at(piece.offset, &bytes).and_then(|()| file.sync_data()).with_context(context)?;
    Ok(copy)
}

fn set_file_aside(storage: &dyn Storage, quarantine: &Path, file: &Path) -> anyhow::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let context = || format!("cannot set aside {}", file.display());
    let moved_to = free_name(storage, quarantine, &name).with_context(context)?;
    storage.rename_durably(file, &moved_to).with_context(context)?;
    Ok(moved_to)
}

fn free_name(storage: &dyn Storage, quarantine: &Path, name: &str) -> io::Result<PathBuf> {
    let taken = storage.list(quarantine)?;
    let names = (0..NAMES_MAX).map(|number| match number {
        0 => format!("{name}.{SUFFIX}"),
        number => format!("{name}.{number}.{SUFFIX}"),
    });
    let free = names.into_iter().find(|name| !taken.contains(name));
    free.map(|name| quarantine.join(name)).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}
