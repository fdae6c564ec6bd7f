//! The status as text.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bbq_server::status::{
    Dropped, Finding, Level, ListenerStatus, ReaderStatus, SinkStatus, SocketStatus, Status,
};
use bbq_spool::ShownBytes;

use crate::safe_text::safe;
use crate::shown_duration::duration;
use crate::time_left::time_left;

/// For how long it has lasted; nothing in its first second.
pub(crate) fn since(finding: &Finding) -> Option<String> {
    let seconds = finding.since_seconds.filter(|seconds| *seconds > 0)?;
    Some(format!(" (for {})", duration(Duration::from_secs(seconds))))
}

/// Of each listener, every socket or their sums.
pub(crate) fn write(status: &Status, every_socket: bool, out: &mut dyn Write) -> io::Result<()> {
    let state = if status.ready { "ready" } else { "not ready" };
    writeln!(out, "bbq {} pid {} {state}, up {} s", status.version, status.pid, status.uptime_seconds)?;
    for finding in status.findings() {
        let level = match finding.level {
            Level::Problem => "problem",
            Level::Notice => "notice",
            Level::Warning => "warning",
        };
        let since = since(&finding).unwrap_or_default();
        writeln!(out, "  {level}: {}", safe(&finding.line_with(&since), false))?;
    }
    let ledger = &status.ledger;
    // Each sink's own numbers are in its section.
    let ahead = ledger.ahead().map(|delivered| format!("; by any sink: {delivered}"));
    let which = match status.sinks.len() {
        0 | 1 => String::new(),
        _ => format!("  (delivered by all sinks{})", ahead.unwrap_or_default()),
    };
    writeln!(out)?;
    writeln!(
        out,
        "received {} = delivered {} + queued {} + dropped {}{}{which}",
        ledger.received,
        ledger.delivered,
        ledger.queued,
        dropped(&ledger.dropped),
        if ledger.filtered > 0 { format!(" + filtered {}", ledger.filtered) } else { String::new() }
    )?;
    writeln!(out)?;
    for listener in &status.listeners {
        write_listener(listener, every_socket, out)?;
    }
    for reader in &status.readers {
        write_reader(reader, out)?;
    }
    for sink in &status.sinks {
        write_sink(sink, out)?;
    }
    for worker in &status.workers {
        writeln!(
            out,
            "worker {:<3} connections {:<8} heartbeat {} ms ago",
            worker.index, worker.connections, worker.heartbeat_ms
        )?;
    }
    let spool = &status.spool;
    let plural = if spool.segments == 1 { "" } else { "s" };
    write!(
        out,
        "spool      {} of {} in {} segment{plural}{}",
        ShownBytes(spool.bytes),
        ShownBytes(spool.bytes_max),
        spool.segments,
        time_left(spool)
    )?;
    if spool.quarantined > 0 {
        write!(out, ", {} damaged pieces set aside in quarantine/", spool.quarantined)?;
    }
    writeln!(out)
}

fn write_listener(listener: &ListenerStatus, every_socket: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "listen     {} ({})", listener.name, listener.distribution)?;
    let address = listener.address.split_once("://").map_or(&*listener.address, |(_, rest)| rest);
    if !listener.name.contains(address) {
        writeln!(out, "           on {}", listener.address)?;
    }
    // With `auto`, any distribution is as configured.
    if let Some(reason) = listener.fallback.as_ref().filter(|_| listener.configured != "auto") {
        writeln!(out, "           {} instead of {}: {reason}", listener.distribution, listener.configured)?;
    }
    let ledger = &listener.ledger;
    write!(out, "           received {}, dropped {}", ledger.received, dropped(&ledger.dropped))?;
    for (count, word) in [
        (ledger.filtered, "filtered"),
        (listener.filter_failed, "kept as where failed"),
        (ledger.cut, "cut"),
        (ledger.duplicates, "duplicates"),
        (ledger.skipped, "skipped by clients"),
        (ledger.refused, "sessions refused"),
    ] {
        if count > 0 {
            write!(out, ", {word} {count}")?;
        }
    }
    writeln!(out)?;
    // The kernel counts bytes in the queue of a UDP socket.
    let unit = if listener.address.starts_with("udp:") { " bytes" } else { "" };
    if every_socket {
        for socket in &listener.sockets {
            let worker = socket.worker.map_or("all".to_owned(), |worker| worker.to_string());
            let name = format!("socket {} worker {worker}", socket.index);
            write_sockets(&name, std::slice::from_ref(socket), unit, out)?;
        }
    } else {
        let plural = if listener.sockets.len() == 1 { "" } else { "s" };
        write_sockets(&format!("{} socket{plural}", listener.sockets.len()), &listener.sockets, unit, out)?;
    }
    if let Some(evenness) = &listener.evenness {
        let word = if evenness.uneven { "uneven" } else { "even" };
        writeln!(
            out,
            "           {word}: of the {} connections of {:.0} s the workers took {} to {}",
            evenness.connections, evenness.seconds, evenness.smallest, evenness.largest
        )?;
    }
    Ok(())
}

/// The sums of some sockets; of the accept delay, the worst.
fn write_sockets(name: &str, sockets: &[SocketStatus], unit: &str, out: &mut dyn Write) -> io::Result<()> {
    // A number that the system does not tell of one socket is not known of all.
    let sum = |of: fn(&SocketStatus) -> Option<u64>| {
        let sum: Option<u64> = sockets.iter().map(of).sum();
        sum.map_or("?".to_owned(), |sum| sum.to_string())
    };
    write!(
        out,
        "           {name}: accepted {}, queue {} of {}{unit}, drops {}",
        sum(|socket| Some(socket.accepted)),
        sum(|socket| socket.queue),
        sum(|socket| socket.backlog),
        sum(|socket| socket.drops)
    )?;
    let delays = sockets.iter().filter_map(|socket| socket.accept_delay_ms.as_ref()?.p99);
    if let Some(p99) = delays.max() {
        write!(out, ", accept delay p99 {p99} ms")?;
    }
    writeln!(out)
}

/// How long ago a second since 1970 was.
fn ago(second: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    duration(Duration::from_secs(now.as_secs().saturating_sub(second)))
}

fn write_reader(reader: &ReaderStatus, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "read       {}", safe(&reader.name, false))?;
    let plural = if reader.files == 1 { "" } else { "s" };
    write!(out, "           {} file{plural}, ", reader.files)?;
    match reader.last_entry_second {
        Some(second) => write!(out, "last entry {} ago", ago(second))?,
        None => write!(out, "{} behind", ShownBytes(reader.behind_bytes))?,
    }
    write!(out, ", received {}, dropped {}", reader.received, dropped(&reader.dropped))?;
    for (count, word) in [
        (reader.filtered, "filtered"),
        (reader.filter_failed, "kept as where failed"),
        (reader.rotations, "rotations"),
        (reader.truncations, "truncations"),
        (reader.compressed, "compressed files left out"),
        (reader.resting, "files resting"),
        (reader.restarts, "restarts of journalctl"),
    ] {
        if count > 0 {
            write!(out, ", {word} {count}")?;
        }
    }
    for (reason, loss) in &reader.lost {
        write!(out, ", lost ({reason}) {} ({} bytes)", loss.count, loss.bytes)?;
    }
    writeln!(out)?;
    if let Some(problem) = &reader.problem {
        writeln!(out, "           problem: {}", safe(problem, false))?;
    }
    Ok(())
}

fn write_sink(sink: &SinkStatus, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "sink       {}", sink.name)?;
    writeln!(
        out,
        "           delivered {}, queued {}, lag {:.1} s, dropped {}{}",
        sink.delivered,
        sink.queued,
        sink.lag_seconds,
        dropped(&sink.dropped),
        filtered(sink.filtered)
    )?;
    if sink.filter_failed > 0 {
        writeln!(out, "           kept as where failed {}", sink.filter_failed)?;
    }
    if sink.paused {
        writeln!(out, "           paused: bbq sink resume resumes delivery")?;
    }
    if let Some(problem) = sink.problem() {
        writeln!(out, "           problem: {}", safe(problem, false))?;
    }
    Ok(())
}

/// `, filtered 7`; nothing where no rules leave messages out.
pub(crate) fn filtered(records: u64) -> String {
    if records == 0 { String::new() } else { format!(", filtered {records}") }
}

/// `7 (full 5, oversize 2)`
pub(crate) fn dropped(dropped: &Dropped) -> String {
    let sum: u64 = dropped.values().sum();
    if sum == 0 {
        return "0".to_owned();
    }
    let reasons: Vec<String> =
        dropped.iter().map(|(reason, records)| format!("{reason} {records}")).collect();
    format!("{sum} ({})", reasons.join(", "))
}
