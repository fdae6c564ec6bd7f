//! What bbq is held to: the processor time of its server for a message, beside bare C and the peers.
//!
//! A sample counts only if the server's file has its full length and `lines_check` finds each message in it, whole and once. The
//! sizes are the marks' own; only how long a sample lasts is a setting.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Context;
use tempfile::TempDir;

use super::to_file::ToFile;
use crate::directory;
use crate::load::Load;
use crate::machine;
use crate::metric::Metric;
use crate::peers::floor::{self, Floor};
use crate::peers::{self, tools};
use crate::plan::Plan;
use crate::process::{END_WITHIN, Process};
use crate::sample::Sample;
use crate::section::{Drawing, Mark, Row, Section};
use crate::settings::Settings;

/// A sample keeps each message twice, in the spool and in the file, and is removed before the next.
const FREE_BYTES_PER_SECOND: f64 = 2e9;
const CHURN_BYTES: u64 = 4096;
const CHURN_THREADS: usize = 4;
const CHURN_FLOOR: &str = "bare C, own reuseport sockets";
/// With the line feed, as loggen counts.
const LINE_BYTES: u64 = 256;
const LINE_CONNECTIONS: u64 = 4;
/// What a second of a sample stands for; the rates of servers are not limited.
const LINES_PER_SECOND: f64 = 400_000.0;
const STREAM_PER_SECOND: f64 = 1_500_000.0;
const STREAM_BYTES: u64 = 100;
const STREAM_PIECE_BYTES: u64 = 64 * 1024;
const STREAM_FLOOR: &str = "bare C, CRC-32C, write, fdatasync per MiB";
const COLUMNS: [Metric; 5] =
    [Metric::ServerCpu, Metric::ClientCpu, Metric::Rate, Metric::DeliveredRate, Metric::OthersBusy];

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let settings = &Settings { peers: true, ..settings.clone() };
    let disk = rustix::fs::statvfs(&settings.directory).context("statvfs of --data")?;
    let needed = FREE_BYTES_PER_SECOND * settings.duration.as_secs_f64();
    anyhow::ensure!(
        (disk.f_bavail * disk.f_frsize) as f64 > needed,
        "--data has less than {:.0} MB free",
        needed / 1e6
    );
    anyhow::ensure!(!machine::is_in_memory(&settings.directory), "--data is in memory; choose a disk");
    let mut left_out = Vec::new();
    let mut sections = Vec::new();
    for section in [churn, lines, stream] {
        sections.push(section(settings, &mut left_out));
    }
    left_out.sort();
    left_out.dedup();
    Ok(Plan { left_out, ..Plan::of(sections) })
}

fn section(title: String, about: &str, rows: Vec<Row>, marks: Vec<Mark>) -> Section {
    let section = Section::new(title, about, &COLUMNS, Drawing::Bars(Metric::ServerCpu), rows);
    Section { marks, ..section }
}

fn churn(settings: &Settings, left_out: &mut Vec<String>) -> Section {
    let (client, check) = (tool("churn_client", settings, left_out), tool("lines_check", settings, left_out));
    let floor = tool("churn_reuseport", settings, left_out);
    let load = |client: &Floor, settings: &Settings, server: SocketAddrV4| {
        let (threads, bytes) = (CHURN_THREADS.to_string(), CHURN_BYTES.to_string());
        let mut command = client.client(server);
        command.args([threads, bytes, tools::whole_seconds(settings).to_string()]);
        tools::send("churn_client", &mut command, settings, (CHURN_THREADS, CHURN_BYTES))
    };
    let mut rows = Vec::new();
    if let (Some(floor), Some(client)) = (floor, client.clone()) {
        rows.push(Row::other(CHURN_FLOOR, move |settings| {
            let workers = settings.workers.to_string();
            floor.measure(settings, &[&workers], false, |server| load(&client, settings, server))
        }));
    }
    let ours = "bbq whole+tcp";
    if let (Some(client), Some(check)) = (client, check) {
        rows.push(Row::new(ours, move |settings| {
            let server = ToFile::start(settings, "whole+tcp", None)?;
            let load = |server| load(&client, settings, server);
            checked(settings, &check, "numbered", server, CHURN_BYTES + 1, load)
        }));
    }
    let mark =
        Mark { row: ours.to_owned(), limit: 1.25, floor: Some(CHURN_FLOOR.to_owned()), beside: Vec::new() };
    section(
        format!("churn: {CHURN_BYTES}-byte messages, a connection each, {CHURN_THREADS} client threads"),
        "The client closes at once. bbq spools and syncs every message, and writes it to a file; the floor stores nothing.",
        rows,
        vec![mark],
    )
    .beside(CHURN_FLOOR, Metric::ServerCpu)
}

/// How lines come to a server.
#[derive(Debug, Clone)]
enum LineClient {
    Loggen,
    Bench(Floor),
}

fn lines(settings: &Settings, left_out: &mut Vec<String>) -> Section {
    let check = tool("lines_check", settings, left_out);
    let mut clients = Vec::new();
    if peers::installed("loggen", left_out) {
        clients.push(("loggen", LineClient::Loggen));
    }
    clients.extend(
        tool("lines_client", settings, left_out).map(|client| ("lines_client", LineClient::Bench(client))),
    );
    let ours = "bbq lines+tcp";
    let mut servers = vec![(ours, None)];
    let peers = peers::available(settings, &peers::LINE_SERVERS, left_out);
    servers.extend(peers.into_iter().map(|(name, start)| (name, Some(start))));
    let mut rows = Vec::new();
    for (server, start) in servers {
        for (name, client) in &clients {
            let (Some(check), client) = (check.clone(), client.clone()) else { continue };
            let row = Row::new(format!("{server}, {name}"), move |settings| {
                measure_lines(settings, start, &client, &check)
            });
            rows.push(Row { is_ours: start.is_none(), ..row });
        }
    }
    let mark = |client| Mark {
        row: format!("{ours}, {client}"),
        limit: 0.6,
        floor: None,
        beside: peers::LINE_SERVERS.map(|(name, ..)| format!("{name}, {client}")).into(),
    };
    let count = line_count(settings);
    section(
        format!(
            "lines: {LINE_BYTES}-byte lines over {LINE_CONNECTIONS} connections to a file, {count} a sample"
        ),
        "bbq spools and syncs every 10 ms. The others run unparsed, with flow control and large batches, and sync nothing. loggen \
         sends line by line and ends on half seconds of its own, so its k/s are too low; lines_client sends 64 KiB at a time.",
        rows,
        vec![mark("loggen"), mark("lines_client")],
    )
    .of("line")
}

fn measure_lines(
    settings: &Settings,
    start: Option<peers::Start>,
    client: &LineClient,
    check: &Floor,
) -> anyhow::Result<Sample> {
    let server = ToFile::start(settings, "lines+tcp", start)?;
    let count = line_count(settings);
    let load = |server| match client {
        LineClient::Loggen => tools::loggen(settings, server, (count, LINE_BYTES, LINE_CONNECTIONS)),
        LineClient::Bench(client) => {
            let mut command = client.client(server);
            command.args([LINE_CONNECTIONS, LINE_BYTES, count].map(|number| number.to_string()));
            let how = (LINE_CONNECTIONS as usize, LINE_BYTES);
            tools::send("lines_client", &mut command, settings, how)
        }
    };
    let kind = if matches!(client, LineClient::Loggen) { "loggen" } else { "numbered" };
    checked(settings, check, kind, server, LINE_BYTES, load)
}

fn line_count(settings: &Settings) -> u64 {
    let each = settings.duration.as_secs_f64() * LINES_PER_SECOND / LINE_CONNECTIONS as f64;
    each.max(1.0) as u64 * LINE_CONNECTIONS
}

fn stream(settings: &Settings, left_out: &mut Vec<String>) -> Section {
    let count = (settings.duration.as_secs_f64() * STREAM_PER_SECOND).max(1.0) as u64;
    let mut rows = Vec::new();
    if let (Some(floor), Some(client)) =
        (tool("stream_durable", settings, left_out), tool("stream_client", settings, left_out))
    {
        rows.push(Row::other(STREAM_FLOOR, move |settings| {
            let output = settings.directory.join("output").display().to_string();
            floor.measure(settings, &[&output], true, |server| {
                let mut command = client.client(server);
                command.args([count * STREAM_BYTES, STREAM_PIECE_BYTES].map(|number| number.to_string()));
                let sent = tools::send("stream_client", &mut command, settings, (1, 1))?;
                Ok(Load { operations: count, ..sent })
            })
        }));
    }
    let ours = "bbq bbq+tcp, bbq send";
    if let Some(check) = tool("lines_check", settings, left_out) {
        let messages = Rc::new(Messages { count, parent: settings.directory.clone(), file: OnceCell::new() });
        rows.push(Row::new(ours, move |settings| {
            let messages = messages.file()?;
            let server = ToFile::start(settings, "bbq+tcp", None)?;
            let load = |server| tools::bbq_send(settings, server, (&messages, count, STREAM_BYTES));
            checked(settings, &check, "numbered", server, STREAM_BYTES + 1, load)
        }));
    }
    let mark = Mark { row: ours.to_owned(), limit: 0.15, floor: None, beside: vec![STREAM_FLOOR.to_owned()] };
    section(
        format!("stream: {STREAM_BYTES}-byte messages, durable, one sender, {count} a sample"),
        "From `bbq send --ack durable` of a file. The floor writes the bytes once, where bbq writes its spool, reads it, and writes a \
         file; it knows no messages.",
        rows,
        vec![mark],
    )
    .beside(STREAM_FLOOR, Metric::ServerCpu)
}

/// A file of numbered messages, written when it is needed and removed with its plan.
#[derive(Debug)]
struct Messages {
    count: u64,
    /// Outlives a sample.
    parent: PathBuf,
    file: OnceCell<TempDir>,
}

impl Messages {
    fn file(&self) -> anyhow::Result<PathBuf> {
        if let Some(directory) = self.file.get() {
            return Ok(directory.path().join("messages"));
        }
        let directory = directory::make(&self.parent)?;
        let path = directory.path().join("messages");
        let mut file = BufWriter::new(File::create(&path).context("cannot write in --data")?);
        let padding = "x".repeat(STREAM_BYTES as usize - 20);
        for number in 0..self.count {
            writeln!(file, "{number:020}{padding}").context("cannot write in --data")?;
        }
        file.flush().context("cannot write in --data")?;
        self.file.get_or_init(|| directory);
        Ok(path)
    }
}

/// A program of bench/floor.
fn tool(program: &'static str, settings: &Settings, left_out: &mut Vec<String>) -> Option<Floor> {
    floor::available(settings, program, left_out)
}

/// Measures a server, and looks at each message in its file.
fn checked(
    settings: &Settings,
    check: &Floor,
    kind: &str,
    server: ToFile,
    line_bytes: u64,
    load: impl FnOnce(SocketAddrV4) -> anyhow::Result<Load>,
) -> anyhow::Result<Sample> {
    let (sample, output, messages) = server.measure(line_bytes, load)?;
    let mut command = check.command();
    command.arg(output).args([&line_bytes.to_string(), &messages.to_string(), kind]);
    Process::run("lines_check", &mut command, &settings.directory, END_WITHIN)?;
    Ok(sample)
}
