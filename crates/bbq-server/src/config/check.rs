//! What no single key can show: sums, names and places that are there twice, and sinks that would write over the server's own files.

use std::path::{Path, PathBuf};

use super::keys::{ADMIN_DEFAULT, UNFINISHED_BYTES_PER_WORKER_MIN};
use super::place::Place;
use super::{Config, ConfigError, ListenSpec};
use crate::real_path::resolved;

/// What the server keeps in its data directory. Everything else there is free for sinks, such as `out/`.
const OWN: [&str; 7] = ["cursors", "dead-letters", "ledger", "lock", "quarantine", "spool", "streams"];

impl Config {
    /// Checks what no single key can.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.check_admin()?;
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
            "admin is {admin}, which other machines can reach; write admin_token_file = \"PATH\", too, or an address of loopback \
             such as {ADMIN_DEFAULT}"
        ));
        Err(at(error, self.origins.of_key("admin")))
    }

    fn check_listener(&self, index: usize) -> Result<(), ConfigError> {
        let (others, spec) = (&self.listen[..index], &self.listen[index]);
        if others.iter().any(|other| other.clashes_with(spec)) {
            return Err(ConfigError::new(format!("{} is listened on twice", spec.head())));
        }
        // Two listeners without names have the same source only if both have port 0. Their addresses then differ.
        let is_named = |other: &ListenSpec| other.has_name() || spec.has_name();
        if others.iter().any(|other| is_named(other) && other.source == spec.source) {
            return Err(ConfigError::new(format!("{:?}: another listener has this name", spec.text)));
        }
        Ok(())
    }

    fn check_sink(&self, index: usize) -> Result<(), ConfigError> {
        let (others, sink) = (&self.sinks[..index], &self.sinks[index]);
        if others.iter().any(|other| other.clashes_with(sink)) {
            return Err(ConfigError::new(format!("two sinks write to {}", sink.head)));
        }
        if others.iter().any(|other| other.name == sink.name) {
            return Err(ConfigError::new(format!(
                "{:?}: another sink has this name; give one a name=",
                sink.text
            )));
        }
        let mut writes_to = [sink.file(), sink.directory()].into_iter().flatten();
        if let Some(own) = writes_to.find_map(|path| self.own_place(path)) {
            return Err(ConfigError::new(format!(
                "sink {} would write into {}, where the server keeps its own data; choose another path, such as {}",
                sink.text,
                own.display(),
                self.data.join("out").display()
            )));
        }
        Ok(())
    }

    /// The file or directory of the server's own that `path` is, or is in.
    fn own_place(&self, path: &Path) -> Option<PathBuf> {
        let path = resolved(path);
        OWN.iter().map(|name| self.data.join(name)).find(|own| path.starts_with(resolved(own)))
    }
}

fn at(error: ConfigError, place: Option<&Place>) -> ConfigError {
    error.at(place.map_or_else(String::new, Place::prefix))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::Overrides;

    fn load(data: &Path, sinks: &[&str]) -> Result<Config, String> {
        let sinks: Vec<String> = sinks.iter().map(|sink| (*sink).to_owned()).collect();
        let overrides = Overrides::from([("data", vec![data.display().to_string()]), ("sink", sinks)]);
        Config::load(None, &overrides).map_err(|error| error.to_string())
    }

    #[test]
    fn a_sink_does_not_write_over_the_servers_own_files() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let shown = data.display();
        for own in OWN {
            for path in [format!("file:{shown}/{own}"), format!("file:{shown}/out/../{own}/deeper/a.log")] {
                let error = load(&data, &[&path]).expect_err(&path);
                assert!(error.contains("its own data") && error.contains(own), "{path}: {error}");
            }
        }
        for free in ["out/messages.log", "messages.log", "spool.log", "locked/a"] {
            load(&data, &[&format!("file:{shown}/{free}")]).unwrap();
        }
        // By another name of the same directory.
        fs::create_dir(&data).unwrap();
        let other = directory.path().join("other");
        symlink(&data, &other).unwrap();
        let error = load(&data, &[&format!("file:{}/ledger", other.display())]).unwrap_err();
        assert!(error.contains("its own data"), "{error}");
    }

    #[test]
    fn a_file_is_one_file_also_by_a_symbolic_link() {
        let directory = tempfile::tempdir().unwrap();
        let [one, two] = ["one.log", "two.log"].map(|name| directory.path().join(name));
        fs::write(&one, "").unwrap();
        symlink(&one, &two).unwrap();
        let sinks = [&one, &two].map(|path| format!("file:{}", path.display()));
        let error = load(&directory.path().join("data"), &[&sinks[0], &sinks[1]]).unwrap_err();
        assert!(error.contains("two sinks write to"), "{error}");
    }

    #[test]
    fn what_contradicts_another_key_is_told_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bbq.toml");
        for (text, place) in [
            ("sink = [\n  \"file:a.log\",\n  \"file:./a.log\",\n]\n", ":3:3: "),
            ("admin = \"0.0.0.0:7790\"\n", ":1:9: "),
            (
                "workers = 2\n[[listen]]\nspec = \"lines+tcp://127.0.0.1:1\"\n[[listen]]\nspec = \"syslog+tcp://127.0.0.1:1\"\n",
                ":4:",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let error = Config::load(Some(&path), &Overrides::new()).unwrap_err().to_string();
            assert!(error.contains(place), "{error}");
        }
    }
}
