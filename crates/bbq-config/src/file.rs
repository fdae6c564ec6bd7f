//! The settings as texts: the TOML file, overridden by environment variables, and these by the options of the command line. Unknown
//! keys are refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bbq_spec::{ConfigError, Part, SpecOption, SpecText, Values, nearest, scalar};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::environment::{self, Environment};
use crate::keys::{DATA, FILE_KEYS, FileKey, NO_SPECS, file_key};
use crate::place::Place;

/// Options of the command line, by the name of their key. They override environment variables and the file.
pub type Overrides = BTreeMap<&'static str, Vec<String>>;

/// The given values by key, each with its place.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// The text of the file; empty without one.
    pub(super) file_text: String,
    texts: BTreeMap<&'static str, (Place, String)>,
    specs: BTreeMap<&'static str, Vec<GivenSpec>>,
}

/// A SPEC, and where it stands.
#[derive(Debug)]
pub(super) struct GivenSpec {
    pub(super) place: Place,
    pub(super) spec: SpecText,
    keys: KeyPlaces,
}

/// The keys of a table, each with the place of the key and of its value. A SPEC that is a text has none.
#[derive(Debug, Default)]
struct KeyPlaces(Vec<(String, Place, Place)>);

impl KeyPlaces {
    fn of(source: &Source<'_>, value: &DeValue<'_>) -> KeyPlaces {
        let DeValue::Table(table) = value else { return KeyPlaces::default() };
        let places = table.iter().map(|(key, value)| {
            let [of_key, of_value] = [key.span(), value.span()].map(|span| source.place(span.start));
            (key.get_ref().to_string(), of_key, of_value)
        });
        KeyPlaces(places.collect())
    }

    /// The place of the mistake: of the key or the value, or of the SPEC if the table does not have the key. `whole` is the place of
    /// the table, or of the text.
    fn add_to(&self, error: ConfigError, whole: &Place) -> ConfigError {
        let place_of = |wanted: &str| self.0.iter().find(|(key, ..)| key == wanted);
        let place = match error.part() {
            Some(Part::Key(key)) => place_of(key).map(|(_, of_key, _)| of_key),
            Some(Part::Value(key)) => place_of(key).map(|(_, _, of_value)| of_value),
            None => None,
        };
        let place = place.or_else(|| place_of("spec").map(|(_, _, of_value)| of_value));
        let prefix = place.unwrap_or(whole).prefix();
        error.at(prefix)
    }
}

impl Settings {
    /// Reads the file, if there is one, and applies the environment and the overrides.
    ///
    /// # Errors
    /// The file cannot be read, is empty, is not TOML, or has an unknown key. The error has the place of the mistake, and for an
    /// unknown key the nearest known key.
    pub(super) fn read(
        path: Option<&Path>,
        environment: &Environment,
        overrides: &Overrides,
    ) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        if let Some(path) = path {
            let text = fs::read_to_string(path)
                .map_err(|error| ConfigError::new(format!("cannot read {}: {error}", path.display())))?;
            settings.add_file(&Source { path, text: &text })?;
            settings.file_text = text;
        }
        for given in environment.texts() {
            let (key, place, text) = given?;
            if let Values::Specs(_) = known(key)?.values {
                settings.set_specs(key, &place, environment::specs(text))?;
            } else {
                settings.texts.insert(key, (place, text.to_owned()));
            }
        }
        for (key, texts) in overrides {
            if let Values::Specs(_) = known(key)?.values {
                settings.set_specs(key, &Place::Option(key), texts.iter().map(String::as_str))?;
            } else if let Some(text) = texts.last() {
                settings.texts.insert(key, (Place::Option(key), text.clone()));
            }
        }
        Ok(settings)
    }

    fn set_specs<'a>(
        &mut self,
        key: &'static str,
        place: &Place,
        texts: impl Iterator<Item = &'a str>,
    ) -> Result<(), ConfigError> {
        let spec = |text| {
            let given = |spec| GivenSpec { place: place.clone(), spec, keys: KeyPlaces::default() };
            SpecText::of_text(text).map(given)
        };
        let specs = texts.map(spec).collect::<Result<_, _>>().map_err(|error| error.at(place.prefix()))?;
        self.specs.insert(key, specs);
        Ok(())
    }

    /// Where the value of a key comes from, if anybody gave one.
    pub(super) fn place(&self, key: &str) -> Option<&Place> {
        self.texts.get(key).map(|(place, _)| place)
    }

    /// The SPECs that were given for a key, each with its place; `None` if nobody gave any.
    pub(super) fn given_specs(&self, key: &str) -> Option<&[GivenSpec]> {
        self.specs.get(key).map(Vec::as_slice)
    }

    fn add_file(&mut self, source: &Source<'_>) -> Result<(), ConfigError> {
        if source.text.trim().is_empty() {
            return Err(ConfigError::new(format!(
                "{} is empty, so it is probably still being written; write it elsewhere and rename it to this name. To run \
                 with the defaults, write a comment into it, such as \"# defaults\"",
                source.path.display()
            )));
        }
        let table = DeTable::parse(source.text).map_err(|error| source.not_toml(&error))?;
        self.add_table(source, "", table.get_ref())
    }

    fn add_table(
        &mut self,
        source: &Source<'_>,
        prefix: &str,
        table: &DeTable<'_>,
    ) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            let inside = format!("{name}.");
            let place = source.place(value.span().start);
            if let Some(known) = file_key(&name) {
                self.add_value(source, known, value).map_err(|error| error.at(place.prefix()))?;
            } else if !FILE_KEYS.iter().any(|known| known.option.key.starts_with(&inside)) {
                return Err(unknown(prefix, key.get_ref()).at(source.place(key.span().start).prefix()));
            } else if let DeValue::Table(table) = value.get_ref() {
                self.add_table(source, &inside, table)?;
            } else {
                let kind = value.get_ref().type_str();
                return Err(ConfigError::new(format!("{name} is of type {kind}; write a table [{name}]"))
                    .at(place.prefix()));
            }
        }
        Ok(())
    }

    fn add_value(
        &mut self,
        source: &Source<'_>,
        known: &'static FileKey,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let key = known.option.key;
        let place = |value: &Spanned<DeValue<'_>>| source.place(value.span().start);
        match (&known.option.values, value.get_ref()) {
            (Values::Specs(_), DeValue::Array(values)) => {
                let spec = |value: &Spanned<DeValue<'_>>| {
                    let (place, keys) = (place(value), KeyPlaces::of(source, value.get_ref()));
                    let spec = SpecText::of_value(value.get_ref());
                    let spec = spec.map_err(|error| keys.add_to(error, &place))?;
                    Ok(GivenSpec { place, spec, keys })
                };
                self.specs.insert(key, values.iter().map(spec).collect::<Result<_, ConfigError>>()?);
            }
            (Values::Specs(_), other) => {
                let kind = other.type_str();
                return Err(ConfigError::new(format!(
                    "{key} is of type {kind}; write a list of SPECs, or [[{key}]] tables"
                )));
            }
            (Values::Text { .. }, other) => {
                self.texts.insert(key, (place(value), scalar(key, other)?));
            }
            (values, other) => {
                let text = scalar(key, other).map_err(|_| {
                    let kind = other.type_str();
                    ConfigError::new(format!("{key} is of type {kind}; allowed: {values}"))
                })?;
                self.texts.insert(key, (place(value), text));
            }
        }
        Ok(())
    }

    /// Gives a key a value unless it has one.
    pub(super) fn set_default(&mut self, key: &'static str, text: &str) {
        self.texts.entry(key).or_insert_with(|| (Place::Option(key), text.to_owned()));
    }

    /// Whether SPECs of this key are given.
    pub(super) fn has_specs(&self, key: &str) -> bool {
        self.specs.contains_key(key)
    }

    /// The text of a key, or its default, parsed by `read`.
    ///
    /// # Errors
    /// The error of `read`, with the key and its place.
    pub(super) fn text<T>(
        &self,
        key: &str,
        read: impl FnOnce(&SpecOption, &str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        let option = known(key)?;
        let given = self.texts.get(key);
        let text = given.map_or(option.default, |(_, text)| text.as_str());
        let place = given.map_or_else(String::new, |(place, _)| place.prefix());
        read(option, text).map_err(|problem| ConfigError::new(format!("{key}: {problem}")).at(place))
    }

    /// The number of a key, or its default.
    pub(super) fn number(&self, key: &str) -> Result<u64, ConfigError> {
        self.text(key, |option, text| option.values.number(text))
    }

    /// The number of a key whose default the caller computes.
    pub(super) fn number_or(&self, key: &str, default: u64) -> Result<u64, ConfigError> {
        if self.texts.contains_key(key) { self.number(key) } else { Ok(default) }
    }

    /// The SPECs of a key, or its default, each parsed by `read`.
    ///
    /// # Errors
    /// The error of `read`, with the place; or there are too few or too many SPECs.
    pub(super) fn specs<T>(
        &self,
        key: &str,
        data: &Path,
        read: impl Fn(&SpecText) -> Result<T, ConfigError>,
    ) -> Result<Vec<T>, ConfigError> {
        let option = known(key)?;
        let specs: Vec<T> = match self.specs.get(key) {
            Some(specs) => {
                let read = |given: &GivenSpec| {
                    read(&given.spec).map_err(|error| given.keys.add_to(error, &given.place))
                };
                specs.iter().map(read).collect::<Result<_, _>>()?
            }
            None => {
                let data = data.display().to_string();
                let texts = option.default.split(", ").filter(|text| *text != NO_SPECS);
                let texts = texts.map(|text| text.replace(DATA, &data));
                texts.map(|text| read(&SpecText::of_text(&text)?)).collect::<Result<_, _>>()?
            }
        };
        match &option.values {
            Values::Specs(range) if range.contains(&(specs.len() as u64)) => Ok(specs),
            values => {
                let given = self.given_specs(key).and_then(|given| given.first());
                let place = given.map_or_else(String::new, |given| given.place.prefix());
                Err(ConfigError::new(format!("{key} has {}; allowed: {values}", specs.len())).at(place))
            }
        }
    }
}

/// The name and the text of the file: they give the place of a value.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn place(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Place::File(format!("{}:{line}:{column}", self.path.display()))
    }

    /// The mistake that the parser found, with its place. Of a key that is listed twice, the parser does not say which it is.
    fn not_toml(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or_default();
        let start = span.start;
        let problem = match (error.message().trim(), self.text.get(span)) {
            ("duplicate key", Some(key)) => listed_twice(key),
            (problem, _) => problem.to_owned(),
        };
        ConfigError::new(problem).at(self.place(start).prefix())
    }
}

/// TOML has a list of SPECs and [[...]] tables of one name as two values of one key.
fn listed_twice(key: &str) -> String {
    match file_key(key).map(|known| &known.option.values) {
        Some(Values::Specs(_)) => format!(
            "{key} is listed twice; write all of them as [[{key}]] tables, or all in one list: \
             {key} = [\"SPEC\", {{ spec = \"SPEC\", name = \"NAME\" }}]"
        ),
        _ => format!("{key} is listed twice; remove one of the two"),
    }
}

/// The option with this name.
///
/// # Errors
/// There is none; the nearest one.
pub fn known(key: &str) -> Result<&'static SpecOption, ConfigError> {
    file_key(key).map(|known| &known.option).ok_or_else(|| unknown("", key))
}

/// `prefix` is empty, or the name of a table and a dot.
fn unknown(prefix: &str, key: &str) -> ConfigError {
    let within = FILE_KEYS.iter().filter_map(|known| known.option.key.strip_prefix(prefix));
    let mut known: Vec<&str> = within.filter_map(|key| key.split('.').next()).collect();
    known.dedup();
    let hint = nearest(key, &known).map(|near| format!(" did you mean {near:?}?")).unwrap_or_default();
    ConfigError::new(format!("unknown key {key:?};{hint} known keys: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::kinds_of_tests::KINDS;

    fn error_of(text: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bbq.toml");
        fs::write(&path, text).unwrap();
        let error = Config::load(&KINDS, Some(&path), &Overrides::default()).unwrap_err();
        error.to_string().replace(&directory.path().display().to_string(), "")
    }

    #[test]
    fn a_key_that_is_listed_twice_is_named_with_its_place_and_the_remedy() {
        let error = error_of("sink = [\"null:\"]\n\n[[sink]]\nspec = \"file:a\"\n");
        assert_eq!(
            error,
            "/bbq.toml:3:3: sink is listed twice; write all of them as [[sink]] tables, or all in one list: \
             sink = [\"SPEC\", { spec = \"SPEC\", name = \"NAME\" }]"
        );
        let error = error_of("listen = [\"lines+tcp://127.0.0.1:1\"]\nlisten = []\n");
        assert!(error.starts_with("/bbq.toml:2:1: listen is listed twice; write all"), "{error}");
        assert_eq!(
            error_of("workers = 1\nworkers = 2\n"),
            "/bbq.toml:2:1: workers is listed twice; remove one of the two"
        );
        assert_eq!(
            error_of("[spool]\nbytes_max = 1\n[spool]\n"),
            "/bbq.toml:3:2: spool is listed twice; remove one of the two"
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
        let error = error_of("workers = 2\n\nlisten_on = []\n");
        assert!(
            error.starts_with("/bbq.toml:3:1: unknown key \"listen_on\"; did you mean \"listen\"?"),
            "{error}"
        );
        let error = error_of("[spool]\nbyte_max = 1\n");
        assert!(
            error.starts_with("/bbq.toml:2:1: unknown key \"byte_max\"; did you mean \"bytes_max\"?"),
            "{error}"
        );
        assert!(error.ends_with("known keys: bytes_max, segment_bytes, flush_interval_ms"), "{error}");
        assert!(error_of("zzz = 1\n").ends_with("unfinished_bytes_max, spool"));
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place() {
        let error = error_of("listen = [\"lines+tcp://127.0.0.1:1\",\n  \"lnes+tcp://127.0.0.1:2\"]\n");
        assert!(error.starts_with("/bbq.toml:2:3: "), "{error}");
        assert!(error.contains("did you mean \"lines\""), "{error}");
        let error = error_of("[spool]\nsegment_bytes = \"64 MB please\"\n");
        assert!(error.starts_with("/bbq.toml:2:17: spool.segment_bytes"), "{error}");
        let error = error_of("drain_timeout_seconds = 1\nworkers = 0\n");
        assert!(error.starts_with("/bbq.toml:2:11: workers") && error.contains("1 to 256"), "{error}");
        assert!(error_of("workers = \"two\"\n").starts_with("/bbq.toml:1:11: "));
        assert!(error_of("workers = [2]\n").contains("workers is of type array"));
        assert!(error_of("spool = 2\n").contains("write a table [spool]"));
        assert!(error_of("listen = \"lines+tcp://127.0.0.1:1\"\n").contains("[[listen]] tables"));
        assert!(error_of("listen = []\n").contains("listen has 0; allowed: a list of 1 to 256"));
    }
}
