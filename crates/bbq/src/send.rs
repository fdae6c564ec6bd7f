//! `bbq send`: sends the lines of files or standard input, and waits until all are acknowledged.

mod lost;
mod notices;
mod watch;
mod words;

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use bbq_client::{
    Compress, Delivery, MESSAGE_BYTES_MAX, OnFull, SendError, Sender, SenderBuilder, StartError,
};
use bbq_spool::ShownBytes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memchr::memrchr;

use crate::arguments::{Ack, SendArguments, TlsArguments};
use crate::outcome::{Outcome, misuse};
use crate::token;
use lost::Lost;
use notices::{Notices, with_option_names};
use watch::{End, NoRoom, Watch};
use words::messages;

const READ_BYTES: usize = 256 * 1024;
/// Interval at which a line that waits for room notes the reason for the user. The line waits without end.
const ROOM_WAIT: Duration = Duration::from_millis(250);

pub(crate) fn run(arguments: &SendArguments) -> anyhow::Result<Outcome> {
    let lost = Arc::new(Lost::default());
    let builder = builder(arguments, Arc::clone(&lost))?;
    let inputs = open_all(arguments).map_err(misuse)?;
    if arguments.files.is_empty() && !arguments.quiet && io::stdin().is_terminal() {
        eprintln!("bbq: reading lines from the terminal; Ctrl-D ends the input");
    }
    let sender = Arc::new(builder.start().map_err(|error| match error {
        StartError::Tls { .. } => misuse(anyhow!(with_option_names(&error.to_string()))),
        StartError::NamedTwice { .. } | StartError::Option { .. } => misuse(error),
        error => error.into(),
    })?);
    let bar = progress_bar(arguments, &inputs);
    let watch = Watch {
        sender: Arc::clone(&sender),
        bar: bar.clone(),
        spool: arguments.spool.clone(),
        servers: server_options(arguments),
        no_room: NoRoom::default(),
        timeout: arguments.timeout,
    };
    let (done, sent) = sync_channel(1);
    let (thread_sender, thread_bar, no_room) = (Arc::clone(&sender), bar.clone(), watch.no_room.clone());
    let begin = Instant::now();
    // A separate thread, as reading may block when a signal comes. It ends with the process.
    thread::Builder::new().name("send".to_owned()).spawn(move || {
        let outcome = send_inputs(inputs, &thread_sender, &thread_bar, &no_room);
        // After a signal nothing receives the outcome.
        let _received = done.send(outcome);
    })?;
    let end = watch.run(&sent)?;
    let bytes = ShownBytes(bar.position());
    bar.finish_and_clear();
    match end {
        End::Sent(outcome) => {
            outcome.map_err(|error| anyhow!(with_option_names(&format!("{error:#}"))))?;
        }
        End::Signal(number) => return Ok(Outcome::Signal(number)),
        End::Late => return Ok(Outcome::Failed),
    }
    let counters = sender.counters();
    if !arguments.quiet {
        let failed = match counters.reconnects {
            0 => String::new(),
            1 => ", 1 connection failed or broke off".to_owned(),
            failed => format!(", {failed} connections failed or broke off"),
        };
        let done = match arguments.ack {
            Ack::Durable | Ack::Replicated | Ack::Received => "acknowledged",
            Ack::None => "sent, without acknowledgement",
        };
        let seconds = begin.elapsed().as_secs_f64();
        eprintln!("{} {done}, {bytes} read, {seconds:.2} s{failed}", messages(counters.acknowledged));
    }
    lost.check()?;
    Ok(Outcome::Done)
}

/// A sender as the options say, which is not started.
fn builder(arguments: &SendArguments, told: Arc<Lost>) -> anyhow::Result<SenderBuilder> {
    let notices = Notices::default();
    let mut builder = Sender::builder()
        .servers(arguments.servers.clone())
        .delivery(if arguments.all { Delivery::All } else { Delivery::Any })
        .ack(arguments.ack.into())
        .compress(if arguments.compress { Compress::On } else { Compress::Off })
        .on_full(OnFull::Block(Some(ROOM_WAIT)))
        .close_timeout(Duration::ZERO)
        // A dropped message ends the command.
        .report_drops(false)
        .end_on_lasting_errors(true)
        .name(concat!("bbq send ", env!("CARGO_PKG_VERSION")))
        .on_notice(move |notice| {
            told.note(notice);
            notices.print(notice);
        });
    if let Some(directory) = &arguments.spool {
        builder = builder.spool(directory);
    }
    builder = with_tls(builder, &arguments.tls);
    if let Some(token) = token::read(arguments.token_file.as_deref()).map_err(misuse)? {
        builder = builder.token(token.expose());
    }
    Ok(builder)
}

fn with_tls(mut builder: SenderBuilder, tls: &TlsArguments) -> SenderBuilder {
    if let Some(file) = &tls.ca {
        builder = builder.tls_ca(file);
    }
    if let Some(file) = &tls.cert {
        builder = builder.tls_cert(file);
    }
    if let Some(file) = &tls.key {
        builder = builder.tls_key(file);
    }
    if let Some(name) = &tls.server_name {
        builder = builder.tls_server_name(name);
    }
    builder
}

/// The options that name the same servers.
fn server_options(arguments: &SendArguments) -> String {
    let all = if arguments.all { " --all" } else { "" };
    let servers = arguments.servers.iter().map(|server| ("--to", server.to_string()));
    let TlsArguments { ca, cert, key, server_name } = &arguments.tls;
    let files = [("--tls-ca", ca), ("--tls-cert", cert), ("--tls-key", key)];
    let files =
        files.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?.display().to_string())));
    let name = server_name.iter().map(|name| ("--tls-server-name", name.clone()));
    let token = arguments.token_file.iter().map(|file| ("--token-file", file.display().to_string()));
    servers
        .chain(files)
        .chain(name)
        .chain(token)
        .fold(all.to_owned(), |options, (option, value)| format!("{options} {option} {value}"))
}

/// Sends everything, and waits until it is acknowledged.
fn send_inputs(
    inputs: Vec<Input>,
    sender: &Sender,
    bar: &ProgressBar,
    no_room: &NoRoom,
) -> anyhow::Result<()> {
    for input in inputs {
        let name = input.name.clone();
        if let Err(error) = send_lines(input, sender, bar, no_room) {
            // The earlier lines are still delivered; the error says where the rest begins.
            let summary = sender.close(Duration::MAX).context("not all lines before it were acknowledged")?;
            return Err(
                error.context(format!("{name}, with {} acknowledged before", messages(summary.acknowledged)))
            );
        }
    }
    bar.set_message("waiting for acknowledgements");
    sender.close(Duration::MAX).context("not all messages were acknowledged")?;
    Ok(())
}

/// A file, or standard input.
struct Input {
    name: String,
    reader: Box<dyn Read + Send>,
    bytes: Option<u64>,
}

/// Opens all inputs before anything is sent, so that a wrong name shows at once.
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

/// Sends every line; the last line needs no line feed.
fn send_lines(mut input: Input, sender: &Sender, bar: &ProgressBar, no_room: &NoRoom) -> anyhow::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    // buffer[..filled] begins at the beginning of a line that is not sent yet.
    let mut filled = 0;
    let mut line = 0;
    loop {
        if filled == buffer.len() {
            // No server takes such a line, and the buffer would grow without bound.
            anyhow::ensure!(
                filled <= MESSAGE_BYTES_MAX,
                "line {} has over {MESSAGE_BYTES_MAX} bytes, more than any server takes; check that the file is text",
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
        line += send_chunk(sender, no_room, &Lines { rest: Some(&buffer[..end - 1]), is_ended: true }, line)?;
        buffer.copy_within(end..filled, 0);
        filled -= end;
        bar.set_message(format!("{} acknowledged", sender.counters().acknowledged));
    }
    if filled > 0 {
        send_chunk(sender, no_room, &Lines { rest: Some(&buffer[..filled]), is_ended: false }, line)?;
    }
    Ok(())
}

/// Sends the lines of a chunk, which come after `before` other lines. Returns how many they are.
fn send_chunk(sender: &Sender, no_room: &NoRoom, chunk: &Lines<'_>, before: u64) -> anyhow::Result<u64> {
    let mut taken = 0;
    let mut lines = chunk.clone();
    loop {
        // Before the welcome the sender does not know which messages are too large.
        let was_welcome = sender.servers().iter().any(|server| server.connected);
        let (more, outcome) = sender.send_all(lines);
        taken += more;
        match outcome {
            Ok(()) => return Ok(taken),
            Err(error @ (SendError::Full { .. } | SendError::SpoolFull { .. })) => no_room.set(&error),
            Err(SendError::MessageTooLarge { bytes, .. }) if !was_welcome && bytes <= MESSAGE_BYTES_MAX => {}
            Err(error @ SendError::MessageTooLarge { .. }) => {
                return Err(error).context(format!("line {}", before + taken + 1));
            }
            Err(error) => return Err(error.into()),
        }
        // Continue at the line that was not taken.
        lines = chunk.clone();
        for _ in 0..taken {
            lines.next();
        }
    }
}

/// The lines of a chunk, split as by a `lines` listener: without the line feed and one carriage return before it.
#[derive(Clone)]
struct Lines<'a> {
    rest: Option<&'a [u8]>,
    /// Whether a line feed follows the chunk.
    is_ended: bool,
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
    // The template is valid, as a test shows.
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
