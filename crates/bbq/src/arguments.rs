//! Every option, once. Help is derived from here.

use std::net::SocketAddr;
use std::path::PathBuf;

use bbq_client::{AckLevel, ServerAddress};
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
    /// Take messages in, keep them, hand them on
    Serve(ServeArguments),
    /// Send the lines of files or of standard input; returns when all are acknowledged
    Send(SendArguments),
    /// Show what a server is doing
    Status(StatusArguments),
    /// Check a configuration file, and show what it would open
    Check(CheckArguments),
}

/// Without options: bbq on tcp 7700, lines on tcp 7701, syslog on udp and tcp 5514, all on loopback; data in ./bbq-data,
/// messages in bbq-data/out/messages.log, admin on 127.0.0.1:7790. SIGTERM and SIGINT finish what was received, and stop;
/// SIGHUP reads the configuration again; SIGUSR2 starts the program again in the old one's place.
#[derive(Args)]
#[command(after_help = "\
A listen SPEC is PROTOCOL+TRANSPORT://ADDRESS[?key=value&...]
  PROTOCOL   bbq, lines, syslog, whole (one message per connection or datagram)
  TRANSPORT  tcp, udp, unix, unixgram
  keys       distribution, on_full, on_oversize, on_incomplete, message_bytes_max, backlog, receive_buffer_bytes
A sink SPEC is file:PATH[?format=raw|json&rotate=daily&rotate_bytes=100MiB&keep=7], or stdout:[?format=...]

Examples:
  bbq serve
  bbq serve --listen syslog+udp://0.0.0.0:514 --sink 'file:/var/log/all.log?format=json&rotate=daily'
  bbq serve --config /etc/bbq.toml")]
pub(crate) struct ServeArguments {
    /// TOML file; its keys are the words of these options, which go over it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What to listen on; may be repeated
    #[arg(long, value_name = "SPEC")]
    pub(crate) listen: Vec<String>,
    /// Where to hand messages on; may be repeated
    #[arg(long, value_name = "SPEC")]
    pub(crate) sink: Vec<String>,
    /// Data directory: the spool, cursors, and one lock
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Worker threads [default: one per processor that the process may use]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// How connections and datagrams are spread over the workers: auto, reuseport, shared
    #[arg(long, value_name = "MODE")]
    pub(crate) distribution: Option<String>,
    /// Where status is asked for
    #[arg(long, value_name = "ADDR|off")]
    pub(crate) admin: Option<String>,
}

/// Each line is one message, without its line feed. Servers that do not answer are tried again until they do; nothing is
/// sent twice.
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
    /// No progress bar
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

#[derive(Args)]
pub(crate) struct StatusArguments {
    /// The server's admin address
    #[arg(long, value_name = "ADDR", default_value = bbq_server::config::ADMIN_DEFAULT)]
    pub(crate) admin: SocketAddr,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Wait until the server is ready; exit code 1 when it is not in time
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<f64>,
}

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// The TOML file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
