//! `bbq spool cat`: prints the messages in the spool.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use bbq_server::Format;
use bbq_server::Formatter;
use bbq_spool::inspect::{self, DamageKind, Found, ReadOnlyDisk};
use bbq_spool::{DirectoryLock, Entry, Storage};
use chrono::{DateTime, SecondsFormat};

use super::survey::name_of;
use crate::arguments::SpoolCatArguments;
use crate::outcome::Outcome;

const BUFFER_BYTES: usize = 256 * 1024;

pub(super) fn run(arguments: &SpoolCatArguments) -> anyhow::Result<Outcome> {
    let _no_server = DirectoryLock::share(&arguments.directory)?;
    let storage: &dyn Storage = &ReadOnlyDisk;
    let format = if arguments.json { Format::Json } else { Format::Raw };
    let mut printer = Printer {
        arguments,
        formatter: Formatter::with_rejections(format),
        buffer: Vec::with_capacity(BUFFER_BYTES),
        out: io::stdout().lock(),
        is_damaged: false,
    };
    for lane in inspect::lanes(storage, &arguments.directory)? {
        if arguments.lane.is_none_or(|wanted| wanted == lane.lane) {
            lane.read(storage, &mut |path, found| printer.take(path, found))
                .with_context(|| format!("lane {}", lane.lane))?;
        }
    }
    printer.flush()?;
    Ok(if printer.is_damaged { Outcome::Failed } else { Outcome::Done })
}

struct Printer<'a> {
    arguments: &'a SpoolCatArguments,
    formatter: Formatter,
    buffer: Vec<u8>,
    out: io::StdoutLock<'static>,
    is_damaged: bool,
}

impl Printer<'_> {
    fn take(&mut self, path: &Path, found: &Found<'_>) -> io::Result<()> {
        match found {
            Found::Group(_) => Ok(()),
            Found::Entry(entry) if !self.is_wanted(entry) => Ok(()),
            Found::Entry(entry) if self.arguments.batches => {
                let line = batch_line(entry);
                self.buffer.extend_from_slice(line.as_bytes());
                self.flush_if_full()
            }
            Found::Entry(entry) => {
                self.formatter.append(entry, &mut self.buffer);
                self.flush_if_full()
            }
            Found::Damage(damage) => {
                let (kind, path) = (name_of(damage.kind), path.display());
                let (offset, bytes, records) = (damage.offset, damage.bytes, damage.records);
                eprintln!("bbq: {kind}: {path} at {offset}, {bytes} bytes, {records} records missing");
                self.is_damaged |= matches!(damage.kind, DamageKind::Damaged | DamageKind::Unreadable);
                Ok(())
            }
        }
    }

    fn is_wanted(&self, entry: &Entry<'_>) -> bool {
        let SpoolCatArguments { from, until, stream, .. } = self.arguments;
        let received = entry.envelope.received_ns;
        from.is_none_or(|from| received >= from)
            && until.is_none_or(|until| received < until)
            && stream.is_none_or(|stream| entry.batch.header.stream == stream)
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        self.out.flush()
    }
}

/// Time of receipt, lane, listener, stream, first and last sequence, bytes.
fn batch_line(entry: &Entry<'_>) -> String {
    let header = &entry.batch.header;
    let time = i64::try_from(entry.envelope.received_ns).unwrap_or(i64::MAX);
    let time = DateTime::from_timestamp_nanos(time).to_rfc3339_opts(SecondsFormat::Nanos, true);
    let last = header.first_sequence.saturating_add(u64::from(header.records)).saturating_sub(1);
    format!(
        "{time} lane={} listener={} stream={} sequences={}-{last} records={} bytes={}\n",
        entry.lane,
        entry.source,
        header.stream,
        header.first_sequence,
        header.records,
        header.total_bytes()
    )
}
