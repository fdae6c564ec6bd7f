//! What to serve: the options of the command line over a TOML file over the defaults, checked as a whole before anything
//! is opened.
//!
//! Keys of the file are the words of the command line. Nothing is ignored: an unknown key, a value out of range or a
//! contradiction is an error that says where it stands, what is allowed and what to write.

mod error;
mod file;
mod listen;
mod quantity;
pub(crate) mod query;
pub(crate) mod spec_text;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bbq_listen::{Distribution, STALL_THRESHOLD_DEFAULT, STALL_THRESHOLD_MIN};
use bbq_spool::limits::{
    FLUSH_INTERVAL_DEFAULT, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MIN, SEGMENTS_PER_LANE_MIN,
    SPOOL_BYTES_DEFAULT,
};

pub use error::ConfigError;
pub use file::ConfigFile;
pub use listen::{LISTEN_OPTIONS, ListenSpec, OnFull, Protocol};
pub use quantity::parse_bytes;
pub use query::{NAME_OPTION, SpecOption};
use spec_text::{SpecText, SpecValue};

pub use crate::sink::SinkSpec;

/// Where the admin listens unless configured.
pub const ADMIN_DEFAULT: &str = "127.0.0.1:7790";
/// The data directory unless configured.
pub const DATA_DEFAULT: &str = "bbq-data";
/// The listeners unless configured: loopback only.
pub const LISTEN_DEFAULT: [&str; 4] = [
    "bbq+tcp://127.0.0.1:7700",
    "lines+tcp://127.0.0.1:7701",
    "syslog+udp://127.0.0.1:5514",
    "syslog+tcp://127.0.0.1:5514",
];
/// How long a stop waits for the sinks to empty the spool; what is left is delivered by the next start.
pub const DRAIN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// How long an upgrade waits for each step of the new program: reading a configuration takes it milliseconds, recovering a
/// large spool seconds.
pub const UPGRADE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// How long a bbq client may take to say hello: it does so right after it has connected.
pub const HELLO_TIMEOUT_SECONDS_DEFAULT: u32 = 10;
/// How long a bbq client may send nothing in the middle of a batch: longer than a network is away for a moment.
pub const BATCH_TIMEOUT_SECONDS_DEFAULT: u32 = 30;
/// For how long a connection must be idle to be closed for a new one: longer than connections of the same burst are.
pub const EVICT_IDLE_SECONDS_DEFAULT: u32 = 10;
/// A day: longer waits make no sense.
pub const TIMEOUT_SECONDS_MAX: u32 = 86_400;
/// Memory of unfinished batches and messages, of all workers: thirty of the largest batches, or a thousand of the usual size.
pub const UNFINISHED_BYTES_DEFAULT: u64 = 512 * 1024 * 1024;
/// The most: more than a machine has.
pub const UNFINISHED_BYTES_MAX: u64 = 1 << 40;
/// The least of that for each worker: the largest batch in the buffer that it grew in, and as much again for the others.
pub const UNFINISHED_BYTES_PER_WORKER_MIN: u64 = 64 * 1024 * 1024;
/// Listeners at most: each has a socket per worker, and an envelope names its source in 16 bits.
pub const LISTENERS_MAX: usize = 256;
/// The longest stall threshold; 0 turns the monitor off.
pub const STALL_THRESHOLD_MAX: Duration = Duration::from_secs(60);
/// Sinks at most: each is a thread.
pub const SINKS_MAX: usize = 64;
/// Workers at most, as in bbq-listen.
pub const WORKERS_MAX: usize = 256;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// Worker threads, and lanes.
    pub workers: usize,
    /// Distribution of the listeners that name none.
    pub distribution: Distribution,
    /// After what time the other workers help a stalled worker; `None` is never.
    pub stall_threshold: Option<Duration>,
    /// Where the admin listens; `None` is off.
    pub admin: Option<SocketAddr>,
    /// What to listen on.
    pub listen: Vec<ListenSpec>,
    /// Where to deliver messages.
    pub sinks: Vec<SinkSpec>,
    /// Bytes of all segments.
    pub spool_bytes_max: u64,
    /// Bytes of one segment.
    pub segment_bytes: u64,
    /// How long messages that no client waits for may collect before they are written.
    pub flush_interval: Duration,
    /// How long a stop waits for the sinks.
    pub drain_timeout: Duration,
    /// How long an upgrade waits for each step of the new program.
    pub upgrade_timeout: Duration,
    /// How long a bbq client may take from its connection to a whole hello.
    pub hello_timeout_seconds: u32,
    /// How long a bbq client may send nothing in the middle of a batch.
    pub batch_timeout_seconds: u32,
    /// For how long a connection must be idle to be closed for a new one.
    pub evict_idle_seconds: u32,
    /// Memory of unfinished batches and messages, of all workers together.
    pub unfinished_bytes_max: u64,
}

/// Where a configuration comes from, to read it again.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// The TOML file.
    pub path: Option<PathBuf>,
    /// Options that override the file.
    pub overrides: Overrides,
}

impl ConfigSource {
    /// [`Config::load`].
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(&self) -> Result<Config, ConfigError> {
        Config::load(self.path.as_deref(), &self.overrides)
    }
}

/// Options of the command line, which override the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--listen`, which replaces all listeners of the file.
    pub listen: Vec<String>,
    /// `--sink`, which replaces all sinks of the file.
    pub sink: Vec<String>,
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--workers`.
    pub workers: Option<usize>,
    /// `--distribution`.
    pub distribution: Option<String>,
    /// `--admin`.
    pub admin: Option<String>,
}

impl Config {
    /// Reads the file, if there is one, puts the overrides over it, fills in the defaults and checks the whole.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigError> {
        let file = match path {
            Some(path) => ConfigFile::read(path)?,
            None => ConfigFile::default(),
        };
        Config::resolve(&file, overrides)
    }

    fn resolve(file: &ConfigFile, overrides: &Overrides) -> Result<Config, ConfigError> {
        let data =
            overrides.data.clone().or_else(|| file.data.clone()).unwrap_or_else(|| DATA_DEFAULT.into());
        let distribution = match (&overrides.distribution, &file.distribution) {
            (Some(word), _) => distribution(word)?,
            (None, Some(word)) => distribution(word.get_ref()).map_err(|error| error.at(file.place(word)))?,
            (None, None) => Distribution::Auto,
        };
        let workers = overrides
            .workers
            .or(file.workers)
            .map_or_else(|| Ok(bbq_listen::worker_count()), checked_workers)?;
        let admin = match (&overrides.admin, &file.admin) {
            (Some(text), _) => admin(text)?,
            (None, Some(text)) => admin(text.get_ref()).map_err(|error| error.at(file.place(text)))?,
            (None, None) => admin(ADMIN_DEFAULT)?,
        };
        let spool_bytes_max = file.bytes("spool.bytes_max", &file.spool.bytes_max, SPOOL_BYTES_DEFAULT)?;
        let segment_bytes_default = segment_bytes_default(spool_bytes_max, workers);
        let config = Config {
            listen: listeners(file, overrides)?,
            sinks: sinks(file, overrides, &data)?,
            data,
            workers,
            distribution,
            stall_threshold: file
                .stall_threshold_ms
                .map_or(Ok(Some(STALL_THRESHOLD_DEFAULT)), stall_threshold)?,
            admin,
            spool_bytes_max,
            segment_bytes: file.bytes(
                "spool.segment_bytes",
                &file.spool.segment_bytes,
                segment_bytes_default,
            )?,
            flush_interval: file
                .spool
                .flush_interval_ms
                .map_or(FLUSH_INTERVAL_DEFAULT, Duration::from_millis),
            drain_timeout: file.drain_timeout_seconds.map_or(DRAIN_TIMEOUT_DEFAULT, Duration::from_secs),
            upgrade_timeout: file
                .upgrade_timeout_seconds
                .map_or(UPGRADE_TIMEOUT_DEFAULT, Duration::from_secs),
            hello_timeout_seconds: seconds(
                "hello_timeout_seconds",
                file.hello_timeout_seconds,
                HELLO_TIMEOUT_SECONDS_DEFAULT,
            )?,
            batch_timeout_seconds: seconds(
                "batch_timeout_seconds",
                file.batch_timeout_seconds,
                BATCH_TIMEOUT_SECONDS_DEFAULT,
            )?,
            evict_idle_seconds: seconds(
                "evict_idle_seconds",
                file.evict_idle_seconds,
                EVICT_IDLE_SECONDS_DEFAULT,
            )?,
            unfinished_bytes_max: file.bytes(
                "unfinished_bytes_max",
                &file.unfinished_bytes_max,
                UNFINISHED_BYTES_DEFAULT.max(UNFINISHED_BYTES_PER_WORKER_MIN * workers as u64),
            )?,
        };
        config.check()?;
        Ok(config)
    }

    /// How a listener is spread: as it says itself, or else as all are, or `auto` where that does not fit its transport.
    #[must_use]
    pub fn distribution_of(&self, spec: &ListenSpec) -> Distribution {
        let fits = self.distribution.misfit(spec.address.transport()).is_none();
        spec.distribution.unwrap_or(if fits { self.distribution } else { Distribution::Auto })
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.segment_bytes < SEGMENT_BYTES_MIN {
            return Err(ConfigError::new(format!(
                "spool.segment_bytes is {}, the least is {SEGMENT_BYTES_MIN}",
                self.segment_bytes
            )));
        }
        if self.flush_interval > Duration::from_secs(10) {
            return Err(ConfigError::new(
                "spool.flush_interval_ms is over 10000: messages nobody waits for would be at risk that long",
            ));
        }
        if self.upgrade_timeout.is_zero() {
            return Err(ConfigError::new("upgrade_timeout_seconds is 0: no upgrade could ever be in time"));
        }
        let unfinished_least = UNFINISHED_BYTES_PER_WORKER_MIN * self.workers as u64;
        if !(unfinished_least..=UNFINISHED_BYTES_MAX).contains(&self.unfinished_bytes_max) {
            return Err(ConfigError::new(format!(
                "unfinished_bytes_max is {}; allowed is {unfinished_least} ({UNFINISHED_BYTES_PER_WORKER_MIN} for each of {} \
                 workers) to {UNFINISHED_BYTES_MAX}",
                self.unfinished_bytes_max, self.workers
            )));
        }
        self.spool_options().check().map_err(|error| ConfigError::new(error.to_string()))?;
        for (index, spec) in self.listen.iter().enumerate() {
            let others = &self.listen[..index];
            if others.iter().any(|other| other.clashes_with(spec)) {
                return Err(ConfigError::new(format!("{} is listened on twice", spec.head())));
            }
            // Without names, both have port 0, and so addresses of their own.
            let is_named = |other: &ListenSpec| other.has_name() || spec.has_name();
            if others.iter().any(|other| is_named(other) && other.source == spec.source) {
                return Err(ConfigError::new(format!("{:?}: another listener has this name", spec.text)));
            }
        }
        for (index, sink) in self.sinks.iter().enumerate() {
            let others = &self.sinks[..index];
            if others.iter().any(|other| other.clashes_with(sink)) {
                return Err(ConfigError::new(format!("two sinks write to {}", sink.head)));
            }
            if others.iter().any(|other| other.name == sink.name) {
                return Err(ConfigError::new(format!(
                    "{:?}: another sink has this name; give one a name=",
                    sink.text
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn spool_options(&self) -> bbq_spool::SpoolOptions {
        let source = |spec: &ListenSpec| bbq_spool::Source {
            name: spec.source.clone(),
            drops_oldest: spec.on_full == OnFull::DropOldest,
        };
        let sources = self.listen.iter().map(source).collect();
        let lanes = u32::try_from(self.workers).unwrap_or(u32::MAX);
        bbq_spool::SpoolOptions {
            segment_bytes: self.segment_bytes,
            bytes_max: self.spool_bytes_max,
            flush_interval: self.flush_interval,
            ..bbq_spool::SpoolOptions::new(self.data.clone(), lanes, sources)
        }
    }
}

fn seconds(key: &str, seconds: Option<u64>, default: u32) -> Result<u32, ConfigError> {
    let Some(seconds) = seconds else { return Ok(default) };
    match u32::try_from(seconds) {
        Ok(seconds @ 1..=TIMEOUT_SECONDS_MAX) => Ok(seconds),
        _ => Err(ConfigError::new(format!("{key} is {seconds}; allowed is 1 to {TIMEOUT_SECONDS_MAX}"))),
    }
}

/// Halved until the spool holds the least number of segments for each worker, so that a machine with many processors needs no
/// configuration. Where even the smallest are too many, the check says so.
fn segment_bytes_default(spool_bytes_max: u64, workers: usize) -> u64 {
    let segments = SEGMENTS_PER_LANE_MIN * workers as u64;
    let mut bytes = SEGMENT_BYTES_DEFAULT;
    while bytes > SEGMENT_BYTES_MIN && bytes.saturating_mul(segments) > spool_bytes_max {
        bytes /= 2;
    }
    bytes
}

fn distribution(word: &str) -> Result<Distribution, ConfigError> {
    word.parse().map_err(|error: bbq_listen::ListenError| ConfigError::new(format!("distribution: {error}")))
}

fn checked_workers(workers: usize) -> Result<usize, ConfigError> {
    if (1..=WORKERS_MAX).contains(&workers) {
        return Ok(workers);
    }
    Err(ConfigError::new(format!(
        "workers is {workers}; allowed is 1 to {WORKERS_MAX}, or leave it out for one per processor"
    )))
}

fn stall_threshold(milliseconds: u64) -> Result<Option<Duration>, ConfigError> {
    let threshold = Duration::from_millis(milliseconds);
    if milliseconds == 0 {
        return Ok(None);
    }
    if (STALL_THRESHOLD_MIN..=STALL_THRESHOLD_MAX).contains(&threshold) {
        return Ok(Some(threshold));
    }
    Err(ConfigError::new(format!(
        "stall_threshold_ms is {milliseconds}; allowed is {} to {}, or 0 to let what waits for a stalled worker wait",
        STALL_THRESHOLD_MIN.as_millis(),
        STALL_THRESHOLD_MAX.as_millis()
    )))
}

fn admin(text: &str) -> Result<Option<SocketAddr>, ConfigError> {
    if text == "off" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        ConfigError::new(format!(
            "admin is {text:?}; write an address and port such as {ADMIN_DEFAULT}, or off"
        ))
    })
}

fn listeners(file: &ConfigFile, overrides: &Overrides) -> Result<Vec<ListenSpec>, ConfigError> {
    let specs: Vec<ListenSpec> = match (&overrides.listen[..], &file.listen) {
        ([], None) => LISTEN_DEFAULT.iter().map(|text| ListenSpec::parse(text)).collect::<Result<_, _>>()?,
        ([], Some(texts)) => {
            let parse = |value: &toml::Spanned<SpecValue>| {
                let spec = SpecText::of_value(value.get_ref()).and_then(|spec| ListenSpec::of(&spec));
                spec.map_err(|error| error.at(file.place(value)))
            };
            texts.iter().map(parse).collect::<Result<_, _>>()?
        }
        (texts, _) => texts.iter().map(|text| ListenSpec::parse(text)).collect::<Result<_, _>>()?,
    };
    match specs.len() {
        0 => Err(ConfigError::new("listen is empty: nothing could ever come in")),
        1..=LISTENERS_MAX => Ok(specs),
        many => Err(ConfigError::new(format!("{many} listeners; at most {LISTENERS_MAX} are allowed"))),
    }
}

fn sinks(file: &ConfigFile, overrides: &Overrides, data: &Path) -> Result<Vec<SinkSpec>, ConfigError> {
    let specs: Vec<SinkSpec> = match (&overrides.sink[..], &file.sink) {
        ([], None) => {
            let path = data.join("out").join("messages.log");
            vec![SinkSpec::parse(&format!("file:{}", path.display()))?]
        }
        ([], Some(texts)) => {
            let parse = |value: &toml::Spanned<SpecValue>| {
                let spec = SpecText::of_value(value.get_ref()).and_then(|spec| SinkSpec::of(&spec));
                spec.map_err(|error| error.at(file.place(value)))
            };
            texts.iter().map(parse).collect::<Result<_, _>>()?
        }
        (texts, _) => texts.iter().map(|text| SinkSpec::parse(text)).collect::<Result<_, _>>()?,
    };
    if specs.len() > SINKS_MAX {
        return Err(ConfigError::new(format!("{} sinks; at most {SINKS_MAX} are allowed", specs.len())));
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_workers_starts_without_configuration() {
        for workers in 1..=WORKERS_MAX {
            let overrides = Overrides { workers: Some(workers), ..Overrides::default() };
            let config = Config::load(None, &overrides).unwrap_or_else(|error| panic!("{workers}: {error}"));
            assert!(workers > 80 || config.segment_bytes == SEGMENT_BYTES_DEFAULT);
        }
        assert_eq!(segment_bytes_default(SPOOL_BYTES_DEFAULT, 81), SEGMENT_BYTES_DEFAULT / 2);
    }
}
