//! Every option, once. Help is derived from here.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::file_options::FileOptions;
use crate::spec_help;
use bbq_bench::{DURATION_DEFAULT, ROUNDS_DEFAULT};
use bbq_client::{AckLevel, ServerAddress, StreamId};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// A burst queue: very many clients push messages one way, what is acknowledged is on disk, sinks hand it on.
#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the server
    Serve(ServeArguments),
    /// Send the lines of files or of standard input; returns when all are acknowledged
    Send(SendArguments),
    /// Show what a server is doing
    Status(StatusArguments),
    /// Check a configuration file, and show what it would open
    Check(CheckArguments),
    /// Check a configuration file, or print one to begin with or its JSON Schema
    Config(ConfigArguments),
    /// Look at a data directory while no server has it: check it, print its messages, or set damage aside
    Spool(SpoolArguments),
    /// Measure on this machine what bbq costs, and which settings to choose
    Bench(BenchArguments),
    /// The server that `bench` measures where the listener alone is the subject
    #[command(hide = true)]
    BenchServer(BenchServerArguments),
    /// Another server, which ends when `bench` does
    #[command(hide = true)]
    BenchLeash(BenchLeashArguments),
}

/// Without options the server listens on loopback only. SIGTERM and SIGINT finish what was received, and stop; SIGHUP reads the
/// configuration again; SIGUSR2 starts the program again in the old one's place.
#[derive(Args)]
#[command(after_help = spec_help::short(), after_long_help = spec_help::long())]
pub(crate) struct ServeArguments {
    /// TOML file; the options of the same names override its keys
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: FileOptions,
}

/// Each line is one message, without its line feed or CR LF. Servers that do not answer are tried again until they do; nothing is
/// sent twice. SIGINT and SIGTERM end it after two seconds at most, with a word about what is left; the exit code is then 130 or
/// 143.
#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq send access.log
  journalctl -f -o cat | bbq send
  bbq send --to bbq://logs.example:7700 --ack received big.log")]
pub(crate) struct SendArguments {
    /// A server, bbq://HOST:PORT or bbq+unix:///PATH; when several are named, the first that answers
    #[arg(long = "to", value_name = "ADDR", default_value = "bbq://127.0.0.1:7700")]
    pub(crate) servers: Vec<ServerAddress>,
    /// When a message counts as sent
    #[arg(long, value_enum, default_value_t = Ack::Durable)]
    pub(crate) ack: Ack,
    /// Send every message to every server that is named, not only to the first that answers
    #[arg(long)]
    pub(crate) all: bool,
    /// Keep what is not acknowledged in this directory; what an earlier call left there is sent first
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Option<PathBuf>,
    /// Compress batches with LZ4
    #[arg(long)]
    pub(crate) compress: bool,
    /// No progress bar, and no line about what was done
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Files to send; - or none is standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Ack {
    /// It is on the server's disk
    Durable,
    /// The server has it in memory
    Received,
    /// It was handed to the network
    None,
}

impl From<Ack> for AckLevel {
    fn from(ack: Ack) -> AckLevel {
        match ack {
            Ack::Durable => AckLevel::Durable,
            Ack::Received => AckLevel::Received,
            Ack::None => AckLevel::None,
        }
    }
}

/// What came in, what became of it, and what keeps the server from working as configured.
#[derive(Args)]
#[command(after_help = "\
Exit codes:
  0  the server answered, also with problems; with --wait, it is ready
  1  it did not answer, or was not ready in time; or something else is at that address
  2  wrong usage
For monitoring ask /health, which is 200, or 503 and the problems: curl -fsS http://127.0.0.1:7790/health
docs/OPERATIONS.md explains each line and what to do about each problem.")]
pub(crate) struct StatusArguments {
    /// The server's admin address, in numbers: the `--admin` that it was started with, or `admin` of its configuration
    #[arg(long, value_name = "ADDR", default_value = bbq_server::config::ADMIN_DEFAULT, value_parser = admin_address)]
    pub(crate) admin: SocketAddr,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Wait until the server is ready; exit code 1 when it is not in time
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<f64>,
}

fn admin_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let example = bbq_server::config::ADMIN_DEFAULT;
        format!("the admin has an address and port in numbers, such as {example}; no name, URL or file")
    })
}

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// The TOML file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file, and show what it would open, as `bbq check`
    Check(CheckArguments),
    /// Print a configuration file with every key and its default, in comments
    Default,
    /// Print the JSON Schema of the configuration file, for editors
    Schema,
}

#[derive(Args)]
pub(crate) struct SpoolArguments {
    #[command(subcommand)]
    pub(crate) command: SpoolCommand,
}

#[derive(Subcommand)]
pub(crate) enum SpoolCommand {
    /// Read everything, change nothing, and say what is there and what is damaged
    Check(SpoolCheckArguments),
    /// Print the messages that are in the spool, delivered or not
    Cat(SpoolCatArguments),
    /// Move what is damaged into DIR/quarantine, so that the rest is read without complaint; nothing is deleted
    Repair(SpoolRepairArguments),
}

/// No server may have the directory; while this runs none can start. Damage is what a server passes over, counts and sets aside
/// by itself: it starts on a directory with any damage.
#[derive(Args)]
#[command(after_help = "\
Exit codes:
  0  everything is as it was written, or was set aside before
  1  something is damaged or missing, or the directory cannot be read, or a server has it
  2  wrong usage")]
pub(crate) struct SpoolCheckArguments {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The data directory: the server's `--data`
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Messages come lane by lane, in the order of their receipt in each. What every sink has passed may be gone already. Damage is
/// named on standard error and passed over; the exit code is then 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq spool cat bbq-data
  bbq spool cat --json --from 2026-01-31T12:00:00Z --until 2026-01-31T13:00:00Z bbq-data")]
pub(crate) struct SpoolCatArguments {
    /// An object per message, as a file sink with format=json writes it
    #[arg(long, conflicts_with = "batches")]
    pub(crate) json: bool,
    /// A line per batch instead of its messages
    #[arg(long)]
    pub(crate) batches: bool,
    /// Only what was received at this time or later, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) from: Option<u64>,
    /// Only what was received before this time, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) until: Option<u64>,
    /// Only this stream: 32 hexadecimal digits, as `format=json` names it
    #[arg(long, value_name = "ID", value_parser = stream)]
    pub(crate) stream: Option<StreamId>,
    /// Only this lane
    #[arg(long, value_name = "N")]
    pub(crate) lane: Option<u32>,
    /// The data directory: the server's `--data`
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// The server must be stopped. Damaged bytes of segments are copied into DIR/quarantine and zeroed, damaged cursors and checkpoints
/// are moved there. What that costs is said for each: which messages are lost, and which may come twice.
#[derive(Args)]
pub(crate) struct SpoolRepairArguments {
    /// The data directory: the server's `--data`
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Nanoseconds since 1970.
fn time(text: &str) -> Result<u64, String> {
    let time = chrono::DateTime::parse_from_rfc3339(text).ok();
    let nanoseconds = time.and_then(|time| u64::try_from(time.timestamp_nanos_opt()?).ok());
    nanoseconds.ok_or_else(|| "write a time from 1970 to 2262 as in 2026-01-31T12:00:00Z".to_owned())
}

fn stream(text: &str) -> Result<StreamId, String> {
    let id = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    id.map(|id| StreamId(id.to_be_bytes())).ok_or_else(|| "write 32 hexadecimal digits".to_owned())
}

/// Without an experiment: lists them. Each starts servers of its own on loopback, runs its rows in turn, and ends by itself; on
/// Ctrl-C at once, with what the rounds say that were whole. The exit code is 1 if a row failed, or if a mark was not met or not
/// measured.
#[derive(Args)]
#[command(after_help = bbq_bench::list() + "\n\
Examples:
  bbq bench listen
  bbq bench stream --rounds 7 --duration 2 --out results
  bbq bench http --peers
  bbq bench marks --only churn --seconds 4
docs/BENCH.md says how to read the tables.")]
pub(crate) struct BenchArguments {
    /// What to measure: some of those below, or all
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,
    /// Only the sections whose titles begin so; may be repeated
    #[arg(long, value_name = "WORD")]
    pub(crate) only: Vec<String>,
    /// How long each row is loaded in each round, in seconds
    #[arg(long, visible_alias = "seconds", value_name = "SECONDS", default_value_t = DURATION_DEFAULT.as_secs_f64(), value_parser = seconds)]
    pub(crate) duration: f64,
    /// How often each row is measured
    #[arg(long, value_name = "N", default_value_t = ROUNDS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Every sample as JSON, instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with plots, the tables and the JSON into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Measure other servers as well, those that are installed
    #[arg(long)]
    pub(crate) peers: bool,
    /// On the disk to measure on; needs some gigabytes for a while
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) data: PathBuf,
    /// Measure another build; the examples of bbq-listen are those beside it
    #[arg(long, value_name = "PATH")]
    pub(crate) bbq: Option<PathBuf>,
    /// Of `servers`: these instead of reuseport and shared; may be repeated, and the first is held to the marks
    #[arg(long, value_name = "MODE")]
    pub(crate) distribution: Vec<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 0.01 to 3600".to_owned()),
    }
}

#[derive(Args)]
pub(crate) struct BenchServerArguments {
    #[arg(long, required = true)]
    pub(crate) listen: Vec<String>,
    #[arg(long)]
    pub(crate) workers: usize,
    #[arg(long)]
    pub(crate) distribution: String,
    #[arg(long, default_value_t = 0)]
    pub(crate) work_us: u64,
    #[arg(long)]
    pub(crate) no_rescue: bool,
}

#[derive(Args)]
pub(crate) struct BenchLeashArguments {
    /// Process number of `bench`
    pub(crate) parent: u32,
    #[arg(value_enum)]
    pub(crate) end: BenchEnd,
    pub(crate) program: OsString,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BenchEnd {
    Kill,
    Terminate,
}
