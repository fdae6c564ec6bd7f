//! Where the values of a configuration come from.

use std::collections::BTreeMap;

use crate::file::Settings;
use crate::keys::FILE_KEYS;
use crate::place::Place;

/// The place of each value that is not a default.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    keys: BTreeMap<&'static str, Place>,
    /// Of each SPEC of a key, in their order.
    specs: BTreeMap<&'static str, Vec<Place>>,
    /// The text of the file; empty without one.
    file_text: String,
}

/// The same configuration may stand elsewhere: a reload that finds nothing else has nothing to change.
impl PartialEq for Origins {
    fn eq(&self, _: &Origins) -> bool {
        true
    }
}

impl Eq for Origins {}

impl Origins {
    pub(super) fn of(settings: &Settings) -> Origins {
        let mut origins = Origins { file_text: settings.file_text.clone(), ..Origins::default() };
        for key in FILE_KEYS.iter().map(|known| known.option.key) {
            if let Some(place) = settings.place(key) {
                origins.keys.insert(key, place.clone());
            }
            if let Some(given) = settings.given_specs(key) {
                origins.specs.insert(key, given.iter().map(|given| given.place.clone()).collect());
            }
        }
        origins
    }

    /// These, but for keys whose values stay as they were.
    #[must_use]
    pub fn keeping(mut self, old: &Origins, keys: &[&'static str]) -> Origins {
        for key in keys {
            match old.keys.get(key) {
                Some(place) => _ = self.keys.insert(key, place.clone()),
                None => _ = self.keys.remove(key),
            }
        }
        self
    }

    pub(super) fn of_key(&self, key: &str) -> Option<&Place> {
        self.keys.get(key)
    }

    /// Whether somebody gave a value or SPECs for a key.
    #[must_use]
    pub fn is_given(&self, key: &str) -> bool {
        self.keys.contains_key(key) || self.specs.contains_key(key)
    }

    /// The keys that the file sets.
    #[must_use]
    pub fn set_by_file(&self) -> Vec<&'static str> {
        let is_file = |place: &Place| matches!(place, Place::File(_));
        let keys = self.keys.iter().filter(|(_, place)| is_file(place)).map(|(key, _)| *key);
        let specs = self.specs.iter().filter(|(_, places)| places.iter().any(is_file)).map(|(key, _)| *key);
        keys.chain(specs).collect()
    }

    /// The text of the file; empty without one.
    #[must_use]
    pub fn file_text(&self) -> &str {
        &self.file_text
    }

    pub(super) fn of_spec(&self, key: &str, index: usize) -> Option<&Place> {
        self.specs.get(key)?.get(index)
    }
}
