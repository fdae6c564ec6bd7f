//! All commands and options. The comments here are the help texts.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::admin_address::admin_address;
use crate::file_options::FileOptions;
use crate::spec_help;
use crate::suggested::Suggested;
use bbq_bench::{DURATION_DEFAULT, ROUNDS_DEFAULT};
use bbq_client::{AckLevel, ServerAddress, StreamId};
use bbq_server::config::Subject;
use bbq_server::{FACILITIES, KINDS, SEVERITIES, SINK_KINDS};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// The help of `bbq`: clap lists commands in one row. A test looks that each is there.
const HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

Run a server:
  init          Ask a few questions, and write a configuration
  serve         Run the server
  check         Check a configuration, and show what the server would open
  config        Explain keys, print a default configuration or its JSON Schema
  reload        Make a running server read its configuration again

Send and read:
  send          Send the lines of files or standard input
  tail          Show messages as they arrive

Watch and control a server:
  status        Show the counts and problems of a server
  top           Show them in the terminal, once a second
  sink          List, pause or rename sinks, skip messages, resend dead letters

Maintain a server:
  spool         Check or repair a data directory, or print its messages
  bench         Measure bbq on this machine
  listen-setup  Let unprivileged servers use steering=load in the kernel

Help:
  man           Show a man page
  completions   Print a script that completes commands and options in a shell
  help          Print this help, or the help of a command

Options:
{options}

The first message:
  bbq serve &
  echo hello | bbq send
";

/// A burst queue: takes messages from many clients, stores them on disk before it acknowledges them, and delivers them to sinks
#[derive(Parser)]
#[command(name = env!("CARGO_BIN_NAME"), version = version(), max_term_width = 100, arg_required_else_help = true, help_template = HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// With the sinks that this build could have and does not.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match KINDS.left_out {
        [] => format!("{version} (with every sink)"),
        left_out => {
            let words: Vec<String> = left_out.iter().map(|kind| format!("{}:", kind.word)).collect();
            format!("{version} (without the sinks {})", words.join(", "))
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Ask a few questions, and write a configuration with comments
    ///
    /// Asks who sends, who may send, where messages go, and how much of the disk they may take. With --agent: what the server reads on this
    /// host, and which central bbq gets it. Each answer is checked immediately; an empty answer takes the default. `bbq config default`
    /// shows every key.
    Init(InitArguments),
    /// Run the server
    ///
    /// Without options the server listens on loopback: bbq on tcp 7700, lines on tcp 7701, syslog on udp and tcp 5514, http on tcp
    /// 7780, admin on tcp 7790. Data are in ./bbq-data, delivered messages in bbq-data/out/messages.log. SIGTERM and SIGINT store the
    /// received messages, and stop the server. SIGHUP reloads the configuration. SIGUSR2 replaces the process with a new one, which keeps
    /// the sockets.
    Serve(ServeArguments),
    /// Send the lines of files or standard input, and wait until all are acknowledged
    ///
    /// Each line is a message, without its LF or CR LF. The command tries again until a server answers; no message is stored twice.
    /// SIGINT and SIGTERM end the command within two seconds; it then says how many messages are not acknowledged, and the exit code
    /// is 130 or 143.
    Send(SendArguments),
    /// Show what a server is doing
    ///
    /// Shows received and delivered messages, and all problems of the server.
    Status(StatusArguments),
    /// Make a running server read its configuration again
    ///
    /// Does what SIGHUP does, and prints the result. The exit code is 0 if the reload is done, and 1 if the server refuses the
    /// configuration or does not answer. After a refusal the server continues as before. The server refuses a configuration that would
    /// close every listener, remove every sink or set everything back to the defaults, and a file that is cut off. To apply it
    /// nevertheless, use --anyway, or send a second SIGHUP within 10 s.
    Reload(ReloadArguments),
    /// List the sinks of a server, pause, resume or rename one, let it skip messages, or send its dead letters again
    ///
    /// A paused sink delivers nothing until it is resumed, even after a restart; its messages wait in the spool. A skipped message is kept
    /// with the dead letters, and counted as dropped (skipped). The exit code is 1 if the server refuses.
    Sink(SinkArguments),
    /// Show what a server is doing in the terminal, once a second
    ///
    /// Shows what the page of the admin shows: problems and what to do about them, the ledger, rates, listeners with their sockets, workers
    /// and sinks. If the server goes away, the command waits for it.
    Top(TopArguments),
    /// Show messages as they arrive
    ///
    /// Shows messages that are on the server's disk, a line for each, until SIGINT ends the command. If too many arrive to be read, the
    /// server shows a sample, and says how many messages it skipped. It never waits for this command. Sinks get every message.
    Tail(TailArguments),
    /// Check a configuration file, and show what the server would open
    Check(CheckArguments),
    /// Check a configuration file, explain its keys, or print a default one or the JSON Schema
    Config(ConfigArguments),
    /// Let unprivileged servers use steering=load in the kernel; run it as root, after each start of the system
    ///
    /// Loads programs into the kernel (eBPF) that choose a worker for a connection, and pins them in a directory. A server uses one
    /// program for each listener with `steering=load`, if it may read and write the program. Without this, such a listener replaces a
    /// program up to 100 times per second. Programs that are already pinned stay, even while servers use them.
    ListenSetup(ListenSetupArguments),
    /// Check or repair a data directory, or print its messages, while no server uses it
    Spool(SpoolArguments),
    /// Measure bbq on this machine, to compare settings
    ///
    /// Without an experiment, lists them. An experiment starts servers on loopback and measures its rows in turn. Ctrl-C ends it with
    /// the results of the complete rounds. The exit code is 1 if a row failed, or if a mark was not met or not measured.
    Bench(BenchArguments),
    /// Print a script that completes commands and options in a shell
    Completions(CompletionsArguments),
    /// Show the man page of bbq, or of a command
    Man(ManArguments),
    /// Write the man pages, for packages
    #[command(hide = true)]
    Manual(ManualArguments),
    /// A server for `bench`, to measure listeners alone
    #[command(hide = true)]
    BenchServer(BenchServerArguments),
    /// Runs another server, which ends when `bench` does
    #[command(hide = true)]
    BenchLeash(BenchLeashArguments),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq init && bbq serve --config bbq.toml
  bbq init --yes /etc/bbq/bbq.toml
  bbq init --agent agent.toml")]
pub(crate) struct InitArguments {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE", default_value = "bbq.toml")]
    pub(crate) file: PathBuf,
    /// For an agent: a bbq that reads the journal, files or containers of this host, and passes them on to a central bbq
    #[arg(long)]
    pub(crate) agent: bool,
    /// Ask nothing, and take the defaults
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Args)]
#[command(after_help = spec_help::short())]
pub(crate) struct ServeArguments {
    /// Configuration file in TOML [env: BBQ_CONFIG]; its keys have the names of these options, which override them. Each key also has
    /// an environment variable, which overrides the file: spool.bytes_max has BBQ_SPOOL_BYTES_MAX
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: FileOptions,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq send access.log
  journalctl -f -o cat | bbq send
  bbq send --to bbq://logs.example:7700 --ack received big.log
  bbq send --to bbq+tls://logs.example:7701 --tls-ca ca.pem access.log")]
pub(crate) struct SendArguments {
    /// A server: bbq://HOST:PORT, bbq+tls://HOST:PORT or bbq+unix:///PATH. May be repeated; then messages go to the first that answers
    #[arg(long = "to", value_name = "ADDR", default_value = "bbq://127.0.0.1:7700")]
    pub(crate) servers: Vec<ServerAddress>,
    /// When a message counts as sent
    #[arg(long, value_enum, default_value_t = Ack::Durable)]
    pub(crate) ack: Ack,
    /// Send every message to every server, not only to the first that answers
    #[arg(long)]
    pub(crate) all: bool,
    /// Keep messages in this directory until they are acknowledged; those of an earlier call are sent first
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Option<PathBuf>,
    /// Give up if messages wait and none is acknowledged for this long; the exit code is 1. Without it, wait forever
    #[arg(long, value_name = "SECONDS", value_parser = patience)]
    pub(crate) timeout: Option<Duration>,
    /// Compress batches with LZ4
    #[arg(long)]
    pub(crate) compress: bool,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    /// File with the token for servers that ask for one; the environment variable BBQ_TOKEN if not set
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// No progress bar and no summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Files to send; - or none means standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Options for servers at bbq+tls:// addresses.
#[derive(Args)]
pub(crate) struct TlsArguments {
    /// PEM file with the certificates of the CAs that issue the servers' certificates; the system's CAs if not set
    #[arg(long = "tls-ca", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// PEM file with the client certificate, for servers that ask for one
    #[arg(long = "tls-cert", value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert, not encrypted
    #[arg(long = "tls-key", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The name in the servers' certificates, if it is not the host of the address
    #[arg(long = "tls-server-name", value_name = "NAME")]
    pub(crate) server_name: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Ack {
    /// The message is on the server's disk
    Durable,
    /// The message is on the disks of the server and of the servers that it passes messages on to
    Replicated,
    /// The message is in the server's memory
    Received,
    /// The message was written to the connection
    None,
}

impl From<Ack> for AckLevel {
    fn from(ack: Ack) -> AckLevel {
        match ack {
            Ack::Durable => AckLevel::Durable,
            Ack::Replicated => AckLevel::Replicated,
            Ack::Received => AckLevel::Received,
            Ack::None => AckLevel::None,
        }
    }
}

#[derive(Args)]
#[command(after_help = "\
Exit codes:
  0  the server answered, even if it has problems; with --wait, it is ready
  1  the server did not answer or was not ready in time, or another program has that address
  2  wrong usage
For monitoring use /health, which returns 200, or 503 and the problems: curl -fsS http://127.0.0.1:7790/health
docs/operations/status.md explains each field, and docs/operations/problems.md what to do about each problem.")]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) server: AdminArguments,
    /// Show every socket, not only their sums
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Wait until the server is ready; exit with 1 if it is not ready in time
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<f64>,
    /// Print a line with rates every second, or at this interval, until a signal ends the command; with --json, print each status on a line
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "1",
        conflicts_with_all = ["wait", "verbose"]
    )]
    pub(crate) watch: Option<f64>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq check /etc/bbq/bbq.toml && bbq reload
  bbq reload --anyway")]
pub(crate) struct ReloadArguments {
    #[command(flatten)]
    pub(crate) server: AdminArguments,
    /// Reload even if that closes every listener, removes every sink or sets everything back to the defaults
    #[arg(long)]
    pub(crate) anyway: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq sink list
  bbq sink pause archive
  bbq sink skip 'http://logs.example:9428/insert/jsonline'
  bbq sink skip archive --before 1h
  bbq sink resend archive")]
pub(crate) struct SinkArguments {
    #[command(subcommand)]
    pub(crate) command: SinkCommand,
}

#[derive(Subcommand)]
pub(crate) enum SinkCommand {
    /// Show each sink: its name, whether it delivers, and its counts
    List(AdminArguments),
    /// Stop the delivery of a sink until it is resumed; its messages wait in the spool
    Pause(SinkName),
    /// Resume the delivery of a paused sink
    Resume(SinkName),
    /// Skip the next message, or all messages received before a time, without delivering them
    ///
    /// They become dead letters of the sink; `bbq spool cat` prints them. With several workers, the next message is the oldest of those that
    /// are first in their lanes. A sink kafka: or nats: that delivers exactly once cannot skip, unless it has keep_seconds=0.
    Skip(SkipArguments),
    /// Send the dead letters of a sink to its destination again, as they were received
    ///
    /// No other sink gets them. Messages that the destination refuses again become dead letters again. If the destination fails, the rest is
    /// left for the next resend, and the exit code is 1. Other messages of the sink wait until this is done. Works for sinks http: and otlp.
    Resend(SinkName),
    /// Give a sink another name; it keeps its place in the spool, its counts and its dead letters
    ///
    /// Without this, a sink whose name= changes in the configuration is a new sink, and gets everything in the spool again. Rename the sink,
    /// write the new name in the configuration, and run bbq reload. Until then the sink is shown with its old name.
    Rename(RenameArguments),
}

#[derive(Args)]
pub(crate) struct SinkName {
    /// The name of the sink: its name= or, without one, its SPEC without options
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: AdminArguments,
}

#[derive(Args)]
pub(crate) struct RenameArguments {
    #[command(flatten)]
    pub(crate) sink: SinkName,
    /// The new name
    #[arg(value_name = "NEW")]
    pub(crate) to: String,
}

#[derive(Args)]
pub(crate) struct SkipArguments {
    #[command(flatten)]
    pub(crate) sink: SinkName,
    /// All messages received before this time: now, how long ago (90s, 10m, 2h, 1d), or 2026-01-31T23:59:59Z
    #[arg(long, value_name = "TIME")]
    pub(crate) before: Option<String>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq tail --severity err
  bbq tail --listener app --grep 'status=5[0-9][0-9]' --from 10m
  bbq tail --json --from beginning | jq .message
Control characters of messages are shown escaped. The exit code is 130 after SIGINT.")]
pub(crate) struct TailArguments {
    /// Only messages of this listener: its name, or its SPEC without options
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,
    /// Only messages of this sender: ADDRESS, ADDRESS:PORT, pid:N or uid:N
    #[arg(long, value_name = "PEER")]
    pub(crate) peer: Option<String>,
    /// Only messages of this stream: 32 hexadecimal digits
    #[arg(long, value_name = "ID")]
    pub(crate) stream: Option<String>,
    /// Only messages of this syslog facility, such as auth or local0
    #[arg(long, value_name = "NAME", value_parser = Suggested::new(FACILITIES), hide_possible_values = true)]
    pub(crate) facility: Option<String>,
    /// Only syslog and OpenTelemetry messages of this severity or worse, or of a range: err, err..warning
    #[arg(long, short = 'p', value_name = "NAME", value_parser = Suggested::new(SEVERITIES.map(|names| names[0])),
          hide_possible_values = true)]
    pub(crate) severity: Option<String>,
    /// Only messages with this text; the first 16 KiB of a message are searched
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Only messages that match this regular expression; the first 16 KiB of a message are searched
    #[arg(long, short = 'g', value_name = "REGEX")]
    pub(crate) grep: Option<String>,
    /// Only messages for which this expression is true, or fails: 'severity <= 4'. It is written as `where` of rules (docs/FILTERS.md)
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub(crate) condition: Option<String>,
    /// Find fields in messages, for --where and --json: json, logfmt, syslog or /PATTERN/
    #[arg(long, value_name = "FORM")]
    pub(crate) parse: Option<String>,
    /// Where to begin: now, beginning (the oldest message in the spool), or how long ago: 90s, 10m, 2h, 1d
    #[arg(long, value_name = "WHEN", default_value = "now", value_parser = Suggested::new(["now", "beginning", "10m"]),
          hide_possible_values = true)]
    pub(crate) from: String,
    /// Print an object per message, as a file sink with format=json does
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: AdminArguments,
}

/// The server that `status`, `reload`, `top` and `tail` ask.
#[derive(Args)]
pub(crate) struct AdminArguments {
    /// The server's admin: HOST:PORT, or the URL of its page. It is the server's `--admin`, or `admin` in its configuration
    #[arg(long, value_name = "ADDR", env = "BBQ_ADMIN", default_value = bbq_server::config::ADMIN_DEFAULT,
          value_parser = admin_address)]
    pub(crate) admin: SocketAddr,
    /// File with a token of the server's admin_token_file; the environment variable BBQ_TOKEN if not set
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Keys: q quit, arrows and page keys scroll, Tab the next table, s sort, / filter, space hold, p pause a sink, + and - interval, h help.
Examples:
  bbq top
  bbq top --once
  bbq top --json --interval 10 | jq .ledger.received
The exit code is 130 after Ctrl-C. Colours are not used if NO_COLOR is set.")]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) server: AdminArguments,
    /// Time between two requests, from 0.2 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one frame as text, with the rates of one interval, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the answer of `bbq status --json` at each interval, a line each; with --once, one line
    #[arg(long)]
    pub(crate) json: bool,
}

fn patience(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=1e9).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "use seconds from 0.1 to 1e9".to_owned())
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.2..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("use seconds from 0.2 to 3600".to_owned()),
    }
}

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// The TOML file [env: BBQ_CONFIG]; without one, check the defaults and the environment variables, as `bbq serve` uses them
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Instead, test the rules of the file with the messages of this TOML file, and print what is not as expected (docs/FILTERS.md)
    #[arg(long, value_name = "CASES")]
    pub(crate) test: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq config explain spool.bytes_max
  bbq config explain sink.kafka
  bbq config explain --config /etc/bbq/bbq.toml listen
  bbq config explain --json | jq '.[] | select(.in_effect[0].from != null)'")]
pub(crate) struct ExplainArguments {
    /// A key (spool.bytes_max), an option of listeners or sinks (listen.on_full, rotate), a table (spool), or a kind of sink (sink.file);
    /// all of them if not given
    #[arg(value_name = "KEY", value_parser = Suggested::new(explained()), hide_possible_values = true)]
    pub(crate) key: Option<String>,
    /// Print an array of objects, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Configuration file in TOML [env: BBQ_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: FileOptions,
}

/// What `bbq config explain` has a text for.
fn explained() -> Vec<String> {
    let mut names: Vec<String> = Subject::all(&bbq_server::KINDS).iter().map(Subject::name).collect();
    names.extend(SINK_KINDS.iter().map(|kind| format!("sink.{}", kind.word)));
    names.dedup();
    names
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file, and show what it would open, as `bbq check`
    Check(CheckArguments),
    /// Explain a key: what it does, what values are allowed, its value, and what sets it
    ///
    /// Takes the options of `bbq serve`, and shows the values that the server would use with them.
    Explain(ExplainArguments),
    /// Print a configuration file with every key and its default, in comments
    Default,
    /// Print the JSON Schema of the configuration file, for editors
    Schema,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq listen-setup --user bbq
  bbq listen-setup --remove
As a line of a systemd unit: ExecStartPre=+/usr/bin/bbq listen-setup --user bbq")]
pub(crate) struct ListenSetupArguments {
    /// The user who may use the programs; root alone if not set
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The group that may use the programs
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Number of programs: twice the number of listeners with `steering=load`, as an upgrade needs both at a time
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) programs: usize,
    /// Where to pin the programs: the directory in `steering_pins` of the server. A file system of type bpf is mounted there
    #[arg(long, value_name = "DIR", default_value = bbq_listen::STEERING_PINS_DEFAULT)]
    pub(crate) pins: PathBuf,
    /// Remove the pinned programs; servers keep those that they use until they end
    #[arg(long, conflicts_with_all = ["user", "group", "programs"])]
    pub(crate) remove: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq completions bash > ~/.local/share/bash-completion/completions/bbq
  bbq completions zsh > ~/.zfunc/_bbq
  bbq completions fish > ~/.config/fish/completions/bbq.fish
The packages of bbq bring these files.")]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq man sink rename
  bbq man serve > bbq-serve.1")]
pub(crate) struct ManArguments {
    /// The command. A file or a pipe gets the source of the page
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ManualArguments {
    /// An existing directory: bbq.1, and a page for each command
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[derive(Args)]
pub(crate) struct SpoolArguments {
    #[command(subcommand)]
    pub(crate) command: SpoolCommand,
}

#[derive(Subcommand)]
pub(crate) enum SpoolCommand {
    /// Read everything, and report the content and any damage; changes nothing
    ///
    /// No server may use the directory, and no server can start on it while this runs. A server starts despite damage: it skips damaged
    /// data, counts the lost messages and sets the data aside.
    Check(SpoolCheckArguments),
    /// Print the messages in the spool, delivered or not
    ///
    /// Messages are printed lane by lane, and within a lane in the order of receipt. Messages that every sink has taken may already be
    /// deleted. Damage is reported on standard error and skipped; the exit code is then 1.
    Cat(SpoolCatArguments),
    /// Move damaged data into DIR/quarantine; deletes nothing
    ///
    /// The server must be stopped. Damaged bytes of segments are copied into DIR/quarantine and zeroed; damaged cursors and checkpoints
    /// are moved there. For each the command reports how many messages are lost, or may be delivered twice.
    Repair(SpoolRepairArguments),
}

#[derive(Args)]
#[command(after_help = "\
Exit codes:
  0  no damage, or only damage that was set aside before
  1  data are damaged or missing, or the directory cannot be read, or a server uses it
  2  wrong usage")]
pub(crate) struct SpoolCheckArguments {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The data directory: the server's `--data`
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  bbq spool cat bbq-data
  bbq spool cat --json --from 2026-01-31T12:00:00Z --until 2026-01-31T13:00:00Z bbq-data")]
pub(crate) struct SpoolCatArguments {
    /// Print an object per message, as a file sink with format=json does
    #[arg(long, conflicts_with = "batches")]
    pub(crate) json: bool,
    /// Print a line per batch instead of its messages
    #[arg(long)]
    pub(crate) batches: bool,
    /// Only messages received at this time or later, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) from: Option<u64>,
    /// Only messages received before this time, RFC 3339
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
    nanoseconds.ok_or_else(|| "use a time from 1970 to 2262, such as 2026-01-31T12:00:00Z".to_owned())
}

fn stream(text: &str) -> Result<StreamId, String> {
    let id = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    id.map(|id| StreamId(id.to_be_bytes())).ok_or_else(|| "use 32 hexadecimal digits".to_owned())
}

#[derive(Args)]
#[command(after_help = bbq_bench::list() + "\n\
Examples:
  bbq bench listen
  bbq bench stream --rounds 7 --duration 2 --out results
  bbq bench http --peers
  bbq bench marks --only churn --seconds 4
docs/BENCH.md says how to read the tables.")]
pub(crate) struct BenchArguments {
    /// What to measure: one or more of those below, or all
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,
    /// Only the sections whose titles begin with this; may be repeated
    #[arg(long, value_name = "WORD")]
    pub(crate) only: Vec<String>,
    /// Seconds of load for each row in each round
    #[arg(long, visible_alias = "seconds", value_name = "SECONDS", default_value_t = DURATION_DEFAULT.as_secs_f64(), value_parser = seconds)]
    pub(crate) duration: f64,
    /// Number of rounds: how often each row is measured
    #[arg(long, value_name = "N", default_value_t = ROUNDS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Print every sample as JSON, instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with plots, the tables and the JSON into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Also measure other servers, if they are installed
    #[arg(long)]
    pub(crate) peers: bool,
    /// Directory on the disk to measure; needs some gigabytes during the run
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) data: PathBuf,
    /// Program to measure instead of this one, with the examples of bbq-listen in its directory
    #[arg(long, value_name = "PATH")]
    pub(crate) bbq: Option<PathBuf>,
    /// For `servers`: the distribution, instead of reuseport and shared; may be repeated, and the marks apply to the first
    #[arg(long, value_name = "MODE")]
    pub(crate) distribution: Vec<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("use seconds from 0.01 to 3600".to_owned()),
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
    #[arg(long, default_value = "hash")]
    pub(crate) steering: String,
    #[arg(long, default_value = "none")]
    pub(crate) steering_pins: PathBuf,
    #[arg(long, default_value_t = 0)]
    pub(crate) work_us: u64,
    #[arg(long)]
    pub(crate) no_rescue: bool,
}

#[derive(Args)]
pub(crate) struct BenchLeashArguments {
    /// Process id of `bench`
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{Arguments, HELP};

    #[test]
    fn each_command_is_in_the_help_once() {
        let command = Arguments::command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut names: Vec<&str> = visible.map(clap::Command::get_name).chain(["help"]).collect();
        let rows = HELP.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
        let mut listed: Vec<&str> = rows.map(|(name, _)| name).collect();
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, names);
        assert!(HELP.lines().all(|line| line.len() <= 80));
    }
}
