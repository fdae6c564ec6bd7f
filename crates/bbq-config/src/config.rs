//! A checked configuration, and where it comes from.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bbq_intake::{GelfChunks, ListenSpec, OnFull, TokenFile, parsed_distribution};
use bbq_listen::Distribution;
use bbq_read::ReadSpec;
use bbq_sink::{Kinds, SinkSpec};
use bbq_spec::{ConfigError, SpecOption};
use bbq_spool::limits::{SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MIN, SEGMENTS_PER_LANE_MIN};

use crate::environment::Environment;
use crate::file::{Overrides, Settings};
use crate::keys::{self, ADMIN_DEFAULT, OFF};
use crate::memory_limit::MemoryLimit;
use crate::memory_plan::{self, Demand, MemoryPlan};
use crate::origins::Origins;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// Worker threads, and lanes.
    pub workers: usize,
    /// The distribution of listeners that do not set their own.
    pub distribution: Distribution,
    /// The time after which other workers help a stalled worker; `None` is never.
    pub stall_threshold: Option<Duration>,
    /// Where programs for steering by load are pinned.
    pub steering_pins: PathBuf,
    /// Where the admin listens; `None` is off.
    pub admin: Option<SocketAddr>,
    /// Who may ask the admin; `None` is everybody.
    pub admin_tokens: Option<TokenFile>,
    /// Where the server answers probes, and nothing else; `None` is off.
    pub probe: Option<SocketAddr>,
    /// What to listen on.
    pub listen: Vec<ListenSpec>,
    /// Which files to read.
    pub read: Vec<ReadSpec>,
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
    /// How long a connection must be idle before it can be closed for a new one.
    pub evict_idle_seconds: u32,
    /// Memory of unfinished batches and messages, of all workers together.
    pub unfinished_bytes_max: u64,
    /// What everything may take of the memory that the process may use.
    pub memory: MemoryPlan,
    /// Where its values come from.
    pub origins: Origins,
}

/// Where a configuration comes from, to read it again.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// The TOML file.
    pub path: Option<PathBuf>,
    /// Environment variables that override the file.
    pub environment: Environment,
    /// Options that override both.
    pub overrides: Overrides,
}

impl ConfigSource {
    /// Reads the file, if there is one, applies the environment and the overrides, adds the defaults and checks the result. Sinks are of
    /// these kinds.
    ///
    /// # Errors
    /// The first mistake that was found.
    pub fn load(&self, kinds: &Kinds) -> Result<Config, ConfigError> {
        Config::of(kinds, &self.settings()?)
    }

    /// Whether it can be read as often as one likes. A pipe cannot.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.path.as_ref().is_none_or(|path| path.is_file())
    }

    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        Settings::read(self.path.as_deref(), &self.environment, &self.overrides)
    }
}

impl Config {
    /// The sink, which finds fields as listeners and readers say: see [`SinkSpec::with_parse_of`].
    #[must_use]
    pub fn with_parse_of_sources(&self, sink: &SinkSpec) -> SinkSpec {
        let listeners = self.listen.iter().map(|spec| (spec.source.as_str(), spec.filter.as_ref()));
        let readers = self.read.iter().map(|spec| (spec.source.as_str(), spec.filter.as_ref()));
        sink.clone().with_parse_of(listeners.chain(readers).filter_map(|(name, rules)| Some((name, rules?))))
    }

    /// Reads the file, if there is one, applies the overrides, adds the defaults and checks the result. The environment does not count.
    ///
    /// # Errors
    /// The first mistake that was found.
    pub fn load(kinds: &Kinds, path: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigError> {
        Config::of(kinds, &Settings::read(path, &Environment::default(), overrides)?)
    }

    /// The same for a server in another program: the admin is off, and there are no sinks, unless the file or the overrides say so.
    ///
    /// # Errors
    /// The first mistake that was found.
    pub fn load_embedded(
        kinds: &Kinds,
        path: Option<&Path>,
        overrides: &Overrides,
    ) -> Result<Config, ConfigError> {
        let mut settings = Settings::read(path, &Environment::default(), overrides)?;
        settings.set_default("admin", OFF);
        let has_sinks = settings.has_specs("sink");
        let mut config = Config::of(kinds, &settings)?;
        if !has_sinks {
            config.sinks.clear();
        }
        Ok(config)
    }

    pub(crate) fn of(kinds: &Kinds, settings: &Settings) -> Result<Config, ConfigError> {
        let data: PathBuf = settings.text("data", |_, text| Ok(text.into()))?;
        let limit = MemoryLimit::of_process();
        let workers_default =
            (bbq_listen::worker_count() as u64).min(memory_plan::workers_max(limit.as_ref()));
        let workers = settings.number_or("workers", workers_default)?;
        let spool_bytes_max = settings.number("spool.bytes_max")?;
        let milliseconds = |key| settings.number(key).map(Duration::from_millis);
        let seconds = |key| settings.number(key).map(Duration::from_secs);
        let seconds_u32 =
            |key| settings.number(key).map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
        let mut config = Config {
            listen: settings.specs("listen", &data, ListenSpec::of)?,
            read: settings.specs("read", &data, ReadSpec::of)?,
            sinks: settings.specs("sink", &data, |spec| kinds.read(spec))?,
            data,
            workers: usize::try_from(workers).unwrap_or(usize::MAX),
            distribution: settings.text("distribution", |_, word| parsed_distribution(word))?,
            stall_threshold: Some(milliseconds("stall_threshold_ms")?)
                .filter(|threshold| !threshold.is_zero()),
            steering_pins: settings.text("steering_pins", |_, text| Ok(text.into()))?,
            admin: settings.text("admin", address_or_off)?,
            admin_tokens: settings.text("admin_token_file", |_, path| match path {
                keys::ADMIN_TOKENS_DEFAULT => Ok(None),
                path => TokenFile::read(path).map(Some),
            })?,
            probe: settings.text("probe", address_or_off)?,
            spool_bytes_max,
            segment_bytes: settings
                .number_or("spool.segment_bytes", segment_bytes_default(spool_bytes_max, workers))?,
            flush_interval: milliseconds("spool.flush_interval_ms")?,
            drain_timeout: seconds("drain_timeout_seconds")?,
            upgrade_timeout: seconds("upgrade_timeout_seconds")?,
            hello_timeout_seconds: seconds_u32("hello_timeout_seconds")?,
            batch_timeout_seconds: seconds_u32("batch_timeout_seconds")?,
            evict_idle_seconds: seconds_u32("evict_idle_seconds")?,
            unfinished_bytes_max: settings.number_or("unfinished_bytes_max", 0)?,
            memory: MemoryPlan::new(None, Demand::default()),
            origins: Origins::of(settings),
        };
        config.memory = MemoryPlan::new(limit, config.demand());
        config.unfinished_bytes_max = config.memory.unfinished_bytes_max;
        config.check()?;
        Ok(config)
    }

    /// What the configuration needs of memory.
    fn demand(&self) -> Demand {
        let connections = self.listen.iter().filter(|spec| !spec.is_datagram());
        Demand {
            workers: self.workers as u64,
            listeners: connections.count() as u64,
            chunks_bytes: self.listen.iter().map(GelfChunks::bytes_max).sum(),
            readers: self.read.len() as u64,
            sinks: self.sinks.len() as u64,
            sinks_bytes: self.sinks.iter().map(SinkSpec::memory_bytes_min).sum(),
            has_admin: self.admin.is_some() || self.probe.is_some(),
            descriptors: rustix::process::getrlimit(rustix::process::Resource::Nofile)
                .maximum
                .unwrap_or(u64::MAX >> 20),
            unfinished_bytes_max: Some(self.unfinished_bytes_max).filter(|bytes| *bytes > 0),
        }
    }

    /// The distribution of a listener: its own if it has one. Otherwise the server's, or `auto` if the server's does not fit the
    /// transport.
    #[must_use]
    pub fn distribution_of(&self, spec: &ListenSpec) -> Distribution {
        let fits = self.distribution.unsupported_reason(spec.address.transport()).is_none();
        spec.distribution.unwrap_or(if fits { self.distribution } else { Distribution::Auto })
    }

    /// The names under which messages come in: of listeners, then of readers. Ledger and spool have them in this order.
    #[must_use]
    pub fn sources(&self) -> Vec<String> {
        let readers = self.read.iter().map(|spec| &spec.source);
        self.listen.iter().map(|spec| &spec.source).chain(readers).cloned().collect()
    }

    /// The SPECs of a key that is a list, as they were configured.
    #[must_use]
    pub fn specs_of(&self, key: &str) -> Vec<&str> {
        match key {
            "listen" => self.listen.iter().map(|spec| spec.text.as_str()).collect(),
            "read" => self.read.iter().map(|spec| spec.text.as_str()).collect(),
            _ => self.sinks.iter().map(|spec| spec.text.as_str()).collect(),
        }
    }

    /// The options of the spool.
    #[must_use]
    pub fn spool_options(&self) -> bbq_spool::SpoolOptions {
        let source = |spec: &ListenSpec| bbq_spool::Source {
            name: spec.source.clone(),
            drops_oldest: spec.on_full == OnFull::DropOldest,
        };
        let reader = |spec: &ReadSpec| bbq_spool::Source { name: spec.source.clone(), drops_oldest: false };
        let sources = self.listen.iter().map(source).chain(self.read.iter().map(reader)).collect();
        let lanes = u32::try_from(self.workers).unwrap_or(u32::MAX);
        // From the root: errors name its files, and whoever reads them may be elsewhere.
        let data = std::path::absolute(&self.data).unwrap_or_else(|_| self.data.clone());
        bbq_spool::SpoolOptions {
            segment_bytes: self.segment_bytes,
            bytes_max: self.spool_bytes_max,
            flush_interval: self.flush_interval,
            lane_buffer_bytes_max: self.memory.lane_buffer_bytes_max,
            hot_bytes_max: self.memory.hot_bytes_max,
            ..bbq_spool::SpoolOptions::new(data, lanes, sources)
        }
    }
}

/// Halves the default until the spool holds the minimum of segments for each worker, so that a machine with many processors
/// needs no configuration. If even the smallest segments do not fit, the check fails.
fn segment_bytes_default(spool_bytes_max: u64, workers: u64) -> u64 {
    let segments = SEGMENTS_PER_LANE_MIN * workers;
    let mut bytes = SEGMENT_BYTES_DEFAULT;
    while bytes > SEGMENT_BYTES_MIN && bytes.saturating_mul(segments) > spool_bytes_max {
        bytes /= 2;
    }
    bytes
}

fn address_or_off(_: &SpecOption, text: &str) -> Result<Option<SocketAddr>, String> {
    if text == OFF {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        format!("{text:?} is not an address; write an address and port such as {ADMIN_DEFAULT}, or off")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bbq_spool::limits::SPOOL_BYTES_DEFAULT;

    use super::*;
    use crate::default_file::default_file;
    use crate::kinds_of_tests::KINDS;

    #[test]
    fn any_number_of_workers_starts_without_configuration() {
        for workers in 1..=keys::WORKERS_MAX {
            let overrides = Overrides::from([("workers", vec![workers.to_string()])]);
            let config =
                Config::load(&KINDS, None, &overrides).unwrap_or_else(|error| panic!("{workers}: {error}"));
            assert!(workers > 80 || config.segment_bytes == SEGMENT_BYTES_DEFAULT);
        }
        assert_eq!(segment_bytes_default(SPOOL_BYTES_DEFAULT, 81), SEGMENT_BYTES_DEFAULT / 2);
    }

    #[test]
    fn the_defaults_are_those_of_the_libraries() {
        let config = Config::load(&KINDS, None, &Overrides::new()).unwrap();
        assert_eq!(config.stall_threshold, Some(bbq_listen::STALL_THRESHOLD_DEFAULT));
        assert_eq!(config.spool_bytes_max, SPOOL_BYTES_DEFAULT);
        assert_eq!(config.flush_interval, bbq_spool::limits::FLUSH_INTERVAL_DEFAULT);
    }

    #[test]
    fn every_line_of_the_default_file_can_be_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bbq.toml");
        let text = default_file();
        for written in [text.clone(), text.replace("\n#", "\n").replace("\n ", "\n# ")] {
            fs::write(&path, &written).unwrap();
            let config = Config::load(&KINDS, Some(&path), &Overrides::new());
            let config = config.unwrap_or_else(|error| panic!("{error}\n{written}"));
            assert_eq!(config, Config::load(&KINDS, None, &Overrides::new()).unwrap());
        }
    }
}
