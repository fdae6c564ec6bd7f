//! The configuration in force, as texts: what the page of the admin shows. A value is written as it can stand in the file.
//!
//! Invariant: no secret is here. A SPEC names the file or the variable of its secret, and `admin_token_file` is a path.

use std::net::SocketAddr;
use std::time::Duration;

use bbq_spec::{Values, with_unit};
use serde::Serialize;

use crate::config::Config;
use crate::keys::{ADMIN_TOKENS_DEFAULT, FILE_KEYS, OFF};
use crate::place::Place;

/// A key and its value, or one of its SPECs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EffectiveKey {
    /// The key.
    pub key: &'static str,
    /// Its value, or one of its SPECs.
    pub value: String,
    /// An option, an environment variable, or file, line and column; `None` for a default.
    pub from: Option<String>,
    /// What it means.
    pub meaning: &'static str,
}

impl Config {
    /// Every key of the file, in its order. A list has an entry for each SPEC.
    #[must_use]
    pub fn effective(&self) -> Vec<EffectiveKey> {
        let keys = FILE_KEYS.iter().flat_map(|known| {
            let (key, meaning) = (known.option.key, known.option.meaning);
            let entry = |value: String, place: Option<&Place>| {
                let from = place.map(ToString::to_string);
                EffectiveKey { key, value, from, meaning }
            };
            match known.option.values {
                Values::Specs(_) => {
                    let specs = self.specs_of(key).into_iter().enumerate();
                    specs
                        .map(|(index, spec)| entry(spec.to_owned(), self.origins.of_spec(key, index)))
                        .collect()
                }
                _ => vec![entry(self.value_of(key), self.origins.of_key(key))],
            }
        });
        keys.collect()
    }

    /// The value of a key that is no list, as it can stand in the file.
    #[must_use]
    pub fn value_of(&self, key: &str) -> String {
        let milliseconds = |time: Duration| time.as_millis().to_string();
        match key {
            "data" => self.data.display().to_string(),
            "workers" => self.workers.to_string(),
            "distribution" => self.distribution.to_string(),
            "stall_threshold_ms" => self.stall_threshold.map_or_else(|| "0".to_owned(), milliseconds),
            "steering_pins" => self.steering_pins.display().to_string(),
            "admin" => address_or_off(self.admin),
            "probe" => address_or_off(self.probe),
            "admin_token_file" => match &self.admin_tokens {
                Some(file) => file.path.display().to_string(),
                None => ADMIN_TOKENS_DEFAULT.to_owned(),
            },
            "drain_timeout_seconds" => self.drain_timeout.as_secs().to_string(),
            "upgrade_timeout_seconds" => self.upgrade_timeout.as_secs().to_string(),
            "hello_timeout_seconds" => self.hello_timeout_seconds.to_string(),
            "batch_timeout_seconds" => self.batch_timeout_seconds.to_string(),
            "evict_idle_seconds" => self.evict_idle_seconds.to_string(),
            "unfinished_bytes_max" => with_unit(self.unfinished_bytes_max),
            "spool.bytes_max" => with_unit(self.spool_bytes_max),
            "spool.segment_bytes" => with_unit(self.segment_bytes),
            "spool.flush_interval_ms" => milliseconds(self.flush_interval),
            // The test below finds a key without a line.
            _ => String::new(),
        }
    }
}

fn address_or_off(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| OFF.to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Overrides;
    use crate::kinds_of_tests::KINDS;

    #[test]
    fn a_configuration_can_be_written_again_from_what_is_shown() {
        let overrides = [
            ("data", "elsewhere"),
            ("workers", "3"),
            ("distribution", "shared"),
            ("stall_threshold_ms", "0"),
            ("admin", "off"),
            ("probe", "0.0.0.0:7791"),
            ("spool.bytes_max", "3GiB"),
            ("spool.flush_interval_ms", "7"),
            ("unfinished_bytes_max", "1GiB"),
        ];
        let overrides = overrides.map(|(key, value)| (key, vec![value.to_owned()]));
        let config = Config::load(&KINDS, None, &Overrides::from(overrides)).unwrap();
        let shown = config.effective();
        assert!(shown.iter().all(|key| !key.value.is_empty()), "{shown:?}");
        let mut again = Overrides::new();
        for key in &shown {
            again.entry(key.key).or_default().push(key.value.clone());
        }
        assert_eq!(Config::load(&KINDS, None, &again).unwrap(), config);
        let of = |key: &str| shown.iter().find(|shown| shown.key == key).unwrap();
        assert_eq!(of("data").from.as_deref(), Some("option --data"));
        assert_eq!(of("hello_timeout_seconds").from, None);
        assert!(shown.iter().filter(|key| key.key == "listen").count() > 1, "{shown:?}");
    }
}
