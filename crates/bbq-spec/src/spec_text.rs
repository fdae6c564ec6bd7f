//! A SPEC before it is parsed: a text such as `file:PATH?format=json`. In the file it may also be a table with `spec` and the
//! options as keys.
//!
//! Before it is checked, a secret may stand where none belongs. So an error shows a SPEC by [`SpecText::shown`], and a value only of an
//! option whose values are no secrets.

use toml::de::{DeArray, DeTable, DeValue};

use crate::error::{ConfigError, Part};

/// The key whose value may be a fraction.
const FRACTION: &str = "sample";
/// The key whose value may be a list of replacements.
const REWRITES: &str = "redact";
/// In place of what may be a secret.
const HIDDEN: &str = "<hidden>";

/// The part in front of the options, and the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecText {
    /// The SPEC with its options as one text. It is for people when [`Query::of`](crate::Query::of) has checked the options.
    pub text: String,
    /// The part in front of the question mark.
    pub head: String,
    /// Keys and values, in the order in which they were written.
    pub options: Vec<(String, String)>,
}

impl SpecText {
    /// Splits a SPEC at its question mark.
    ///
    /// # Errors
    /// An option has no value, or is given twice.
    pub fn of_text(text: &str) -> Result<SpecText, ConfigError> {
        let (head, options) = text.split_once('?').unwrap_or((text, ""));
        let mut spec = SpecText { text: text.to_owned(), head: head.to_owned(), options: Vec::new() };
        for (index, part) in parts(options).enumerate() {
            let Some((key, value)) = part.split_once('=') else {
                // This may be a part of a secret that has an ampersand.
                return Err(ConfigError::new(format!(
                    "{:?}: option {} has no value; write KEY=VALUE{}",
                    spec.shown(|_, _| false),
                    index + 1,
                    question_mark_hint(head)
                )));
            };
            spec.add(key, value.to_owned())?;
        }
        Ok(spec)
    }

    /// Splits a SPEC of the file: a text, or a table.
    ///
    /// # Errors
    /// It is of another type, or its options are not well formed.
    pub fn of_value(value: &DeValue<'_>) -> Result<SpecText, ConfigError> {
        match value {
            DeValue::String(text) => SpecText::of_text(text),
            DeValue::Table(table) => SpecText::of_table(table),
            other => Err(ConfigError::new(format!(
                "this is of type {}; write a SPEC in quotes, or a table with spec = \"SPEC\", name and options",
                other.type_str()
            ))),
        }
    }

    fn of_table(table: &DeTable<'_>) -> Result<SpecText, ConfigError> {
        let Some(DeValue::String(text)) = table.get("spec").map(|value| value.get_ref()) else {
            return Err(ConfigError::new(
                "the table has no spec; write spec = \"SPEC\", as on the command line",
            ));
        };
        let mut spec = SpecText::of_text(text)?;
        for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != "spec") {
            let key = key.get_ref();
            let value = match value.get_ref() {
                // No other key has a list, and the option itself refuses what is no replacement.
                DeValue::Array(elements) if key == REWRITES => rewrites(key, elements),
                value => scalar(key, value),
            };
            let value = value.map_err(|error| error.about(Part::Value(key.to_string())))?;
            let before = if spec.options.is_empty() { '?' } else { '&' };
            spec.text.push_str(&format!("{before}{key}={value}"));
            spec.add(key, value)?;
        }
        Ok(spec)
    }

    /// The SPEC with some of its values, by key and value. The others are hidden, as is a user of a URL.
    pub fn shown(&self, is_shown: impl Fn(&str, &str) -> bool) -> String {
        let mut shown = self.shown_head();
        for (index, (key, value)) in self.options.iter().enumerate() {
            let before = if index == 0 { '?' } else { '&' };
            let value = if is_shown(key, value) { value } else { HIDDEN };
            shown.push_str(&format!("{before}{key}={value}"));
        }
        shown
    }

    /// The SPEC without options, and without a user of a URL.
    pub fn shown_head(&self) -> String {
        without_user(&self.head)
    }

    fn add(&mut self, key: &str, value: String) -> Result<(), ConfigError> {
        if self.options.iter().any(|(known, _)| known == key) {
            let error = ConfigError::new(format!("{:?}: {key} is given twice", self.shown(|_, _| false)));
            return Err(error.about(Part::Key(key.to_owned())));
        }
        self.options.push((key.to_owned(), value));
        Ok(())
    }
}

/// Splits options at each `&`. Two of them are an operator of an expression, and a part of the value.
fn parts(options: &str) -> impl Iterator<Item = &str> {
    let mut rest = options;
    std::iter::from_fn(move || {
        let mut end = 0;
        while let Some(at) = rest[end..].find('&') {
            end += at;
            if !rest[end + 1..].starts_with('&') {
                let part = &rest[..end];
                rest = &rest[end + 1..];
                return Some(part);
            }
            end += 2;
        }
        Some(std::mem::take(&mut rest)).filter(|last| !last.is_empty())
    })
    .filter(|part| !part.is_empty())
}

/// What else may be wrong with the options of a SPEC.
pub(crate) fn question_mark_hint(spec: &str) -> &'static str {
    match spec.starts_with("exec:") {
        true => {
            ". The first `?` ends the command: write arguments with a `?` in a [[sink]] table, as arguments = \"...\""
        }
        false => "",
    }
}

/// A URL without its user and password.
pub fn without_user(url: &str) -> String {
    let authority = url.find("//").map_or(0, |slashes| slashes + 2);
    let end = url[authority..].find('/').map_or(url.len(), |length| authority + length);
    match url[authority..end].rfind('@') {
        Some(at) if authority > 0 && at > 0 => {
            format!("{}{HIDDEN}{}", &url[..authority], &url[authority + at..])
        }
        _ => url.to_owned(),
    }
}

/// The value of a key as a text.
///
/// # Errors
/// The value is a list, a table, a fraction or a time.
pub fn scalar(key: &str, value: &DeValue<'_>) -> Result<String, ConfigError> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            Ok(decimal.map_or_else(|_| number.to_string(), |decimal| decimal.to_string()))
        }
        DeValue::Boolean(value) => Ok(value.to_string()),
        DeValue::Float(number) if key == FRACTION => Ok(number.as_str().to_owned()),
        other => {
            let kind = other.type_str();
            Err(ConfigError::new(format!("{key} is of type {kind}; write a text or a number")))
        }
    }
}

/// A list of replacements as one text: `s/PATTERN/WITH/; s/PATTERN/WITH/`.
fn rewrites(key: &str, elements: &DeArray<'_>) -> Result<String, ConfigError> {
    let texts = elements.iter().map(|element| match element.get_ref() {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Table(table) => rewrite(key, table),
        other => Err(ConfigError::new(format!(
            "{key} has an element of type {}; write \"s/PATTERN/WITH/\" or {{ pattern = \"PATTERN\", with = \"WITH\" }}",
            other.type_str()
        ))),
    });
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("; "))
}

fn rewrite(key: &str, table: &DeTable<'_>) -> Result<String, ConfigError> {
    let text = |name: &str| match table.get(name).map(|value| value.get_ref()) {
        Some(DeValue::String(text)) => Ok(text.clone()),
        _ => Err(ConfigError::new(format!(
            "{key} has a table without {name}; write {{ pattern = \"PATTERN\", with = \"WITH\" }}"
        ))),
    };
    let (pattern, with) = (text("pattern")?, text("with")?);
    if let Some((other, _)) =
        table.iter().find(|(name, _)| !["pattern", "with"].contains(&name.get_ref().as_ref()))
    {
        return Err(ConfigError::new(format!(
            "{key} has a table with {:?}; allowed: pattern, with",
            other.get_ref()
        )));
    }
    let escaped = |text: &str| text.replace('/', "\\/");
    Ok(format!("s/{}/{}/", escaped(&pattern), escaped(&with)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_of_a_url_is_hidden() {
        for (url, shown) in [
            ("http://user:sesame@host/a", "http://<hidden>@host/a"),
            ("https://sesame@host", "https://<hidden>@host"),
            ("http://user:s@same@host:1/a@b", "http://<hidden>@host:1/a@b"),
            ("http://host/a@b", "http://host/a@b"),
            ("lines+unix://@name", "lines+unix://@name"),
            ("lines+unix:///run/a@b", "lines+unix:///run/a@b"),
            ("file:a@b", "file:a@b"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }

    fn options(text: &str) -> Vec<(String, String)> {
        SpecText::of_text(text).unwrap().options
    }

    #[test]
    fn two_ampersands_are_a_part_of_a_value() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(options("a?b=1&c=2&"), pairs(&[("b", "1"), ("c", "2")]));
        assert_eq!(options("a?where=x && y&&z&c=2"), pairs(&[("where", "x && y&&z"), ("c", "2")]));
        assert_eq!(options("a?&b=1&&"), pairs(&[("b", "1&&")]));
    }

    fn of_toml(text: &str) -> Result<SpecText, String> {
        let table = DeTable::parse(text).map_err(|error| error.to_string())?;
        SpecText::of_table(table.get_ref()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_may_have_a_fraction_and_a_list_of_replacements() {
        let spec = of_toml(
            "spec = \"a\"\nsample = 0.25\nredact = [\"s|x|y|\", { pattern = \"a/b\", with = \"c/$1\" }]",
        );
        let mut options = spec.unwrap().options;
        options.sort();
        assert_eq!(options[0], ("redact".to_owned(), r"s|x|y|; s/a\/b/c\/$1/".to_owned()));
        assert_eq!(options[1], ("sample".to_owned(), "0.25".to_owned()));
        for (wrong, says) in [
            ("redact = [1]", "redact has an element of type integer; write"),
            ("redact = [{ pattern = \"a\" }]", "redact has a table without with"),
            ("redact = [{ pattern = \"a\", with = \"b\", to = \"c\" }]", "redact has a table with \"to\""),
            ("other = [\"a\"]", "other is of type array"),
            ("other = 0.5", "other is of type float"),
        ] {
            let error = of_toml(&format!("spec = \"a\"\n{wrong}")).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
