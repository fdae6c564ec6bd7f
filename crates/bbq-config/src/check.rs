//! What no single key can show: sums, names and places that are there twice, and sinks that would write over the server's own files.

use bbq_intake::ListenSpec;
use bbq_sink::SinkSpec;
use bbq_spec::ConfigError;
use bbq_spec::own_files::{absolute, own_place, refusal, resolved};

use crate::config::Config;
use crate::keys::{ADMIN_DEFAULT, LISTENERS_MAX};
use crate::memory_plan::UNFINISHED_BYTES_PER_WORKER_MIN;
use crate::place::Place;

impl Config {
    /// Checks what no single key can.
    ///
    /// # Errors
    /// The first mistake that was found.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_admin()?;
        self.check_probe()?;
        if self.listen.is_empty() && self.read.is_empty() {
            return Err(ConfigError::new(format!(
                "listen has 0; allowed: a list of 1 to {LISTENERS_MAX} SPECs or tables, or none beside a reader of files (read)"
            )));
        }
        let unfinished_least = UNFINISHED_BYTES_PER_WORKER_MIN * self.workers as u64;
        if self.unfinished_bytes_max < unfinished_least {
            let error = ConfigError::new(format!(
                "unfinished_bytes_max is {}; the least is {unfinished_least} ({UNFINISHED_BYTES_PER_WORKER_MIN} for each of \
                 {} workers)",
                self.unfinished_bytes_max, self.workers
            ));
            return Err(at(error, self.origins.of_key("unfinished_bytes_max")));
        }
        self.spool_options().check().map_err(|error| ConfigError::new(error.to_string()))?;
        for index in 0..self.listen.len() {
            let place = self.origins.of_spec("listen", index);
            self.check_listener(index).map_err(|error| at(error, place))?;
        }
        for index in 0..self.read.len() {
            let place = self.origins.of_spec("read", index);
            self.check_reader(index).map_err(|error| at(error, place))?;
        }
        for index in 0..self.sinks.len() {
            let place = self.origins.of_spec("sink", index);
            self.check_sink(index).map_err(|error| at(error, place))?;
        }
        Ok(())
    }

    fn check_admin(&self) -> Result<(), ConfigError> {
        let Some(admin) = self.admin else { return Ok(()) };
        if admin.ip().to_canonical().is_loopback() || self.admin_tokens.is_some() {
            return Ok(());
        }
        let error = ConfigError::new(format!(
            "admin is {admin}, which other machines can reach; also write admin_token_file = \"PATH\", or use a loopback address \
             such as {ADMIN_DEFAULT}"
        ));
        Err(at(error, self.origins.of_key("admin")))
    }

    fn check_probe(&self) -> Result<(), ConfigError> {
        let Some(probe) = self.probe.filter(|probe| probe.port() != 0 && self.admin == Some(*probe)) else {
            return Ok(());
        };
        let error = ConfigError::new(format!(
            "probe is {probe}, which is the address of admin; leave out probe, as admin answers probes as well, or choose another port"
        ));
        Err(at(error, self.origins.of_key("probe")))
    }

    fn check_listener(&self, index: usize) -> Result<(), ConfigError> {
        let (others, spec) = (&self.listen[..index], &self.listen[index]);
        if others.iter().any(|other| other.clashes_with(spec)) {
            return Err(ConfigError::new(format!(
                "{} has the address of another listener; choose another address",
                spec.head()
            )));
        }
        // Two listeners without names have the same source only if both have port 0. Their addresses then differ.
        let is_named = |other: &ListenSpec| other.has_name() || spec.has_name();
        if others.iter().any(|other| is_named(other) && other.source == spec.source) {
            return Err(ConfigError::new(format!("{:?}: another listener has this name", spec.text)));
        }
        Ok(())
    }

    fn check_reader(&self, index: usize) -> Result<(), ConfigError> {
        let (others, spec) = (&self.read[..index], &self.read[index]);
        let taken = |by: &str| {
            ConfigError::new(format!(
                "{:?}: {by} has the name {}; give one of them a name=",
                spec.text, spec.source
            ))
        };
        if self.listen.iter().any(|listener| listener.source == spec.source) {
            return Err(taken("a listener"));
        }
        if others.iter().any(|other| other.source == spec.source) {
            return Err(taken("another reader"));
        }
        Ok(())
    }

    fn check_sink(&self, index: usize) -> Result<(), ConfigError> {
        let (others, sink) = (&self.sinks[..index], &self.sinks[index]);
        if others.iter().any(|other| other.clashes_with(sink)) {
            return Err(ConfigError::new(format!("two sinks write to {}; change one of them", sink.head)));
        }
        if others.iter().any(|other| other.name == sink.name) {
            return Err(ConfigError::new(format!(
                "{:?}: another sink has this name; give one a name=",
                sink.text
            )));
        }
        // A `parse` of its own counts, also one that finds no fields.
        let finds_fields =
            || self.with_parse_of_sources(sink).rules().is_some_and(|rules| rules.finds_fields());
        if sink.names_parsed_of_others() && !finds_fields() {
            return Err(ConfigError::new(format!(
                "{:?} names a field as parsed, and nothing finds fields; write parse = \"json\", \"logfmt\" or \"/PATTERN/\" at this sink, \
                 or at a listener or reader",
                sink.text
            )));
        }
        if let Some(own) = sink.written().and_then(|path| own_place(&self.data, path, absolute)) {
            return Err(ConfigError::new(format!("sink {}: {}", sink.text, refusal(&self.data, &own))));
        }
        Ok(())
    }

    /// What symbolic links hide: sinks that write one file, or the server's own. It looks at the disks of the sinks; a server does that only on
    /// the threads of its sinks, which refuse such a file.
    #[must_use]
    pub fn hidden_by_links(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (index, sink) in self.sinks.iter().enumerate() {
            let Some(path) = sink.written() else { continue };
            if let Some(own) = own_place(&self.data, path, resolved) {
                found.push(format!("sink     {}: {}", sink.text, refusal(&self.data, &own)));
            }
            let is_same =
                |other: &&SinkSpec| other.written().is_some_and(|other| resolved(other) == resolved(path));
            if let Some(other) =
                self.sinks[..index].iter().filter(|other| other.file().is_some()).find(is_same)
            {
                found.push(format!(
                    "sink     {}: it writes to the same file as {}; choose another file",
                    sink.text, other.text
                ));
            }
        }
        found
    }
}

fn at(error: ConfigError, place: Option<&Place>) -> ConfigError {
    error.at(place.map_or_else(String::new, Place::prefix))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::file::Overrides;
    use crate::kinds_of_tests::KINDS;

    fn load(data: &Path, sinks: &[&str]) -> Result<Config, String> {
        let sinks: Vec<String> = sinks.iter().map(|sink| (*sink).to_owned()).collect();
        let overrides = Overrides::from([("data", vec![data.display().to_string()]), ("sink", sinks)]);
        Config::load(&KINDS, None, &overrides).map_err(|error| error.to_string())
    }

    #[test]
    fn a_sink_does_not_write_over_the_servers_own_files() {
        let data = Path::new("/nowhere/data");
        let error = load(data, &["file:/nowhere/data/out/../ledger"]).unwrap_err();
        assert!(error.contains("/nowhere/data/ledger is where the server keeps its own data"), "{error}");
        load(data, &["file:/nowhere/data/out/messages.log"]).unwrap();
    }

    #[test]
    fn what_links_hide_is_found_also_if_nothing_is_there_yet() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        symlink("one.log", at("two.log")).unwrap();
        symlink("data/ledger", at("three.log")).unwrap();
        let sinks = ["one.log", "two.log", "three.log"].map(|name| format!("file:{}", at(name).display()));
        let config = load(&at("data"), &sinks.each_ref().map(String::as_str)).unwrap();
        let found = config.hidden_by_links();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("two.log: it writes to the same file as file:") && found[0].contains("one.log"),
            "{found:?}"
        );
        assert!(found[1].contains("three.log") && found[1].contains("keeps its own data"), "{found:?}");
    }

    #[test]
    fn what_contradicts_another_key_is_told_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bbq.toml");
        for (text, place) in [
            ("sink = [\n  \"file:a.log\",\n  \"file:./a.log\",\n]\n", ":3:3: "),
            ("admin = \"0.0.0.0:7790\"\n", ":1:9: "),
            ("probe = \"127.0.0.1:7790\"\n", ":1:9: "),
            (
                "workers = 2\n[[listen]]\nspec = \"lines+tcp://127.0.0.1:1\"\n[[listen]]\nspec = \"syslog+tcp://127.0.0.1:1\"\n",
                ":4:",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let error = Config::load(&KINDS, Some(&path), &Overrides::new()).unwrap_err().to_string();
            assert!(error.contains(place), "{error}");
        }
    }
}
