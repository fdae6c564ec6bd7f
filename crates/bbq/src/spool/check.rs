//! `bbq spool check`: reports the content and the damage.

use std::io::{self, Write};

use bbq_spool::DirectoryLock;

use super::survey::{Lane, Piece, Sealed, SinkCursor, Survey};
use crate::arguments::SpoolCheckArguments;
use crate::outcome::Outcome;

pub(super) fn run(arguments: &SpoolCheckArguments) -> anyhow::Result<Outcome> {
    let _no_server = DirectoryLock::share(&arguments.directory)?;
    let survey = Survey::make(&arguments.directory)?;
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &survey)?;
        writeln!(out)?;
    } else {
        write(&survey, &mut out)?;
    }
    Ok(if survey.damaged { Outcome::Failed } else { Outcome::Done })
}

fn write(survey: &Survey, out: &mut impl Write) -> io::Result<()> {
    for lane in &survey.lanes {
        write_lane(lane, out)?;
    }
    for cursor in &survey.cursors {
        write_cursor(cursor, out)?;
    }
    write_sealed("streams", &survey.streams, out)?;
    write_sealed("ledger", &survey.ledger, out)?;
    writeln!(out, "quarantine: {} files, {} bytes", survey.quarantine.files, survey.quarantine.bytes)?;
    let word = if survey.damaged { "damage was found" } else { "no damage" };
    writeln!(out, "{word}")
}

fn write_lane(lane: &Lane, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "lane {}: {} segments of {} bytes, {} groups, {} batches, {} records, numbers {} to {}",
        lane.lane,
        lane.segments,
        lane.bytes,
        lane.groups,
        lane.batches,
        lane.records,
        lane.first_record,
        lane.end_record
    )?;
    lane.damage.iter().try_for_each(|piece| write_piece(piece, out))
}

pub(super) fn write_piece(piece: &Piece, out: &mut impl Write) -> io::Result<()> {
    let Piece { kind, offset, bytes, records, .. } = piece;
    let note = match *kind {
        "torn" => "; never acknowledged, and removed at the next start of the server",
        "missing" if piece.set_aside => "; set aside before",
        _ => "",
    };
    let file = piece.file.display();
    writeln!(out, "  {kind}: {file} at {offset}, {bytes} bytes, {records} records missing{note}")
}

fn write_cursor(cursor: &SinkCursor, out: &mut impl Write) -> io::Result<()> {
    if let Some(why) = &cursor.damage {
        return writeln!(out, "cursor: damaged: {}: {why}", cursor.file.display());
    }
    write!(out, "cursor of {}: {} delivered", cursor.sink, cursor.delivered)?;
    for place in &cursor.lanes {
        write!(out, "; lane {} at {}, {} records behind", place.lane, place.position, place.behind)?;
    }
    writeln!(out)
}

fn write_sealed(name: &str, file: &Sealed, out: &mut impl Write) -> io::Result<()> {
    match &file.damage {
        Some(why) => writeln!(out, "{name}: damaged: {}: {why}", file.file.display()),
        None if file.state == "missing" => {
            writeln!(out, "{name}: none; a server writes it when it stops, and from time to time")
        }
        None => writeln!(out, "{name}: {}, {} entries", file.state, file.entries),
    }
}
