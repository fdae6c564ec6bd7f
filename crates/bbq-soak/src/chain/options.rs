//! The command line of the chain.

use std::path::PathBuf;

use clap::Args;

use crate::options::clock;

/// Sends numbered messages through an edge bbq and a central bbq to a file, JetStream, Kafka and S3, while everything is killed
#[derive(Clone, Debug, Args)]
pub(crate) struct ChainOptions {
    /// How many messages all senders send together
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) messages: u64,
    /// How often each process is killed: each sender, both servers, the brokers of each kind, the server of S3
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) kills: u64,
    /// How many servers of NATS, and brokers of Kafka, there are. Of several, one at a time is killed of each kind
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = brokers)]
    pub(crate) brokers: usize,
    /// Repeats the moments of the kills, as far as the machine does [default: the time]
    #[arg(long, value_name = "S", default_value_t = clock(), hide_default_value = true)]
    pub(crate) seed: u64,
    /// The program under test, with the sinks `nats:`, `kafka:` and `s3:`
    #[arg(long, value_name = "FILE", default_value = "target/release/bbq")]
    pub(crate) bbq: PathBuf,
    /// The server of NATS
    #[arg(long, value_name = "FILE", default_value = "target/nats/nats-server")]
    pub(crate) nats_server: PathBuf,
    /// The jars of Kafka and its tools
    #[arg(long, value_name = "DIR", default_value = "target/kafka/jars")]
    pub(crate) kafka_jars: PathBuf,
    /// The server of S3
    #[arg(long, value_name = "FILE", default_value = "target/versitygw/versitygw")]
    pub(crate) versitygw: PathBuf,
    /// The working directory; it is kept after a failure
    #[arg(long, value_name = "DIR", default_value = "target/chain")]
    pub(crate) directory: PathBuf,
}

/// Of two, none may be killed.
fn brokers(text: &str) -> Result<usize, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        _ => Err("1 or 3 of each kind".to_owned()),
    }
}
