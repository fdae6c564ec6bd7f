//! `bbq send`: the lines of files, or of standard input, acknowledged.

mod watch;

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use bbq_client::{Compress, Delivery, MESSAGE_BYTES_MAX, Notice, OnFull, SendError, Sender, StartError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memchr::memrchr;

use crate::arguments::SendArguments;
use crate::outcome::Outcome;
use watch::{End, Room, Watch};

/// One read of a file.
const READ_BYTES: usize = 256 * 1024;
/// Whoever pipes into it waits for room as long as it takes, and is told for what so soon.
const ROOM_WAIT: Duration = Duration::from_millis(250);

pub(crate) fn run(arguments: &SendArguments) -> anyhow::Result<Outcome> {
    let mut builder = Sender::builder()
        .servers(arguments.servers.clone())
        .delivery(if arguments.all { Delivery::All } else { Delivery::Any })
        .ack(arguments.ack.into())
        .compress(if arguments.compress { Compress::On } else { Compress::Off })
        .on_full(OnFull::Block(Some(ROOM_WAIT)))
        .close_timeout(Duration::ZERO)
        // It is told on the spot, and ends.
        .report_drops(false)
        // A person waits, or a script.
        .end_on_lasting_errors(true)
        .name(concat!("bbq send ", env!("CARGO_PKG_VERSION")))
        .on_notice(show);
    if let Some(directory) = &arguments.spool {
        builder = builder.spool(directory);
    }
    let inputs = match open_all(arguments) {
        Ok(inputs) => inputs,
        Err(error) => return Ok(Outcome::Misused(error)),
    };
    let sender = match builder.start() {
        Ok(sender) => Arc::new(sender),
        Err(error @ StartError::NamedTwice { .. }) => return Ok(Outcome::Misused(error.into())),
        Err(error) => return Err(error.into()),
    };
    let bar = progress_bar(arguments, &inputs);
    let watch = Watch {
        sender: Arc::clone(&sender),
        bar: bar.clone(),
        spool: arguments.spool.clone(),
        servers: server_options(arguments),
        room: Room::default(),
    };
    let (done, sent) = sync_channel(1);
    let (sending, moving, room) = (Arc::clone(&sender), bar.clone(), watch.room.clone());
    // A thread of its own, as its input may stand still when a signal comes. It ends with the process.
    thread::Builder::new().name("send".to_owned()).spawn(move || {
        let outcome = send_inputs(inputs, &sending, &moving, &room);
        // After a signal nobody listens.
        let _told = done.send(outcome);
    })?;
    let end = watch.run(&sent)?;
    bar.finish_and_clear();
    match end {
        End::Sent(outcome) => outcome?,
        End::Signal(number) => return Ok(Outcome::Signal(number)),
    }
    let counters = sender.counters();
    if !arguments.quiet {
        let failed = match counters.reconnects {
            0 => String::new(),
            failed => format!(", {failed} connections failed or broke off"),
        };
        eprintln!("{} messages acknowledged{failed}", counters.acknowledged);
    }
    Ok(Outcome::Done)
}

/// What names the same servers on a command line.
fn server_options(arguments: &SendArguments) -> String {
    let all = if arguments.all { " --all" } else { "" };
    arguments.servers.iter().fold(all.to_owned(), |options, server| format!("{options} --to {server}"))
}

/// Sends everything, and waits until it is acknowledged.
fn send_inputs(inputs: Vec<Input>, sender: &Sender, bar: &ProgressBar, room: &Room) -> anyhow::Result<()> {
    for input in inputs {
        let name = input.name.clone();
        if let Err(error) = send_lines(input, sender, bar, room) {
            // What was taken before is still sent and acknowledged: the message says from where on it was not.
            let summary = sender.close(Duration::MAX).context("what came before was not all acknowledged")?;
            return Err(
                error.context(format!("{name}, with {} messages acknowledged before", summary.acknowledged))
            );
        }
    }
    bar.set_message("waiting for acknowledgements");
    sender.close(Duration::MAX).context("not all messages were acknowledged")?;
    Ok(())
}

/// Says that it waits, rather than standing still without a word.
fn show(notice: &Notice) {
    match notice {
        Notice::Unreachable { server, why } => {
            eprintln!("bbq: {server}: {why}; trying again until a server answers")
        }
        Notice::NewStream { server, why } => {
            eprintln!("bbq: {server}: {why}; what is not acknowledged goes as a new stream")
        }
        Notice::Lost { server, records, why } => {
            eprintln!("bbq: {server}: {records} messages are lost: {why}")
        }
        Notice::Connected { server } => tracing::debug!(server, "connected"),
        _ => {}
    }
}

/// A file, or standard input.
struct Input {
    name: String,
    reader: Box<dyn Read + Send>,
    bytes: Option<u64>,
}

/// Opens everything before anything is sent: a typing error in the last name must not show after an hour.
fn open_all(arguments: &SendArguments) -> anyhow::Result<Vec<Input>> {
    if arguments.files.is_empty() {
        return Ok(vec![Input::standard()]);
    }
    arguments
        .files
        .iter()
        .map(|path| if path == Path::new("-") { Ok(Input::standard()) } else { Input::open(path) })
        .collect()
}

impl Input {
    fn standard() -> Input {
        Input { name: "standard input".to_owned(), reader: Box::new(io::stdin()), bytes: None }
    }

    fn open(path: &Path) -> anyhow::Result<Input> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let metadata = file.metadata().with_context(|| format!("cannot read {name}"))?;
        anyhow::ensure!(!metadata.is_dir(), "{name} is a directory; name the files in it");
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Input { name, reader: Box::new(file), bytes })
    }
}

/// Sends every line; the last one needs no line feed.
fn send_lines(mut input: Input, sender: &Sender, bar: &ProgressBar, room: &Room) -> anyhow::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    // buffer[..filled] begins with a line; none of it was sent.
    let mut filled = 0;
    let mut line = 0;
    loop {
        if filled == buffer.len() {
            // No server takes this; without an end to it, it would take all memory.
            anyhow::ensure!(
                filled <= MESSAGE_BYTES_MAX,
                "line {} has over {MESSAGE_BYTES_MAX} bytes, more than any server takes; is it text?",
                line + 1
            );
            buffer.resize(2 * filled, 0);
        }
        let bytes = match input.reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("cannot read"),
        };
        bar.inc(bytes as u64);
        let end = memrchr(b'\n', &buffer[filled..filled + bytes]).map(|at| filled + at + 1);
        filled += bytes;
        let Some(end) = end else { continue };
        line += send_chunk(sender, room, &Lines::ended(&buffer[..end - 1]), line)?;
        buffer.copy_within(end..filled, 0);
        filled -= end;
        bar.set_message(format!("{} acknowledged", sender.counters().acknowledged));
    }
    if filled > 0 {
        send_chunk(sender, room, &Lines::open(&buffer[..filled]), line)?;
    }
    Ok(())
}

/// Sends the lines of a chunk; `before` lines stood before it.
fn send_chunk(sender: &Sender, room: &Room, chunk: &Lines<'_>, before: u64) -> anyhow::Result<u64> {
    let mut taken = 0;
    let mut lines = chunk.clone();
    loop {
        // Before that nobody has said which messages are too large.
        let was_welcome = sender.servers().iter().any(|server| server.connected);
        let (more, outcome) = sender.send_all(lines);
        taken += more;
        match outcome {
            Ok(()) => return Ok(taken),
            Err(error @ (SendError::Full { .. } | SendError::SpoolFull { .. })) => room.is_missing(&error),
            Err(SendError::MessageTooLarge { bytes, .. }) if !was_welcome && bytes <= MESSAGE_BYTES_MAX => {}
            Err(error @ SendError::MessageTooLarge { .. }) => {
                return Err(error).context(format!("line {}", before + taken + 1));
            }
            Err(error) => return Err(error.into()),
        }
        // From the line on that found no room.
        lines = chunk.clone();
        for _ in 0..taken {
            lines.next();
        }
    }
}

/// The lines of a chunk, cut as a listener of `lines` does: without their line feeds and one carriage return before each.
#[derive(Clone)]
struct Lines<'a> {
    rest: Option<&'a [u8]>,
    /// Whether a line feed stood behind the chunk.
    is_ended: bool,
}

impl<'a> Lines<'a> {
    /// A chunk behind which a line feed stood.
    fn ended(chunk: &'a [u8]) -> Lines<'a> {
        Lines { rest: Some(chunk), is_ended: true }
    }

    /// A chunk whose last line has no end.
    fn open(chunk: &'a [u8]) -> Lines<'a> {
        Lines { rest: Some(chunk), is_ended: false }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (line, has_end) = match memchr::memchr(b'\n', rest) {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                (&rest[..at], true)
            }
            None => {
                self.rest = None;
                (rest, self.is_ended)
            }
        };
        Some(if has_end { line.strip_suffix(b"\r").unwrap_or(line) } else { line })
    }
}

fn progress_bar(arguments: &SendArguments, inputs: &[Input]) -> ProgressBar {
    if arguments.quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bytes: Option<u64> = inputs.iter().map(|input| input.bytes).sum();
    let (bar, template) = match bytes {
        Some(bytes) => {
            (ProgressBar::new(bytes), "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {binary_bytes_per_sec} {msg}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    bar.enable_steady_tick(Duration::from_millis(200));
    // The template is fixed, and a test of the command line draws it.
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
