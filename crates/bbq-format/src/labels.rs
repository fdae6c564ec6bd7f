//! The labels of messages at Loki, by which it finds them.
//!
//! Labels of headers are words that syslog and OpenTelemetry choose. What `parse` finds and what readers know is chosen by programs: these
//! values are bounded in number and length, as names at destinations are.

use std::sync::Arc;

use bbq_spec::Values;

use crate::names::{Field, NameRules, NameTemplate};

/// Fields of a message that are labels beside `listener`, as bits by their place in `NAMES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labels(u8);

const NAMES: [&str; 4] = ["hostname", "appname", "severity", "facility"];
/// The label that every message has.
pub(crate) const LISTENER: &str = "listener";
/// Labels that a message has at most: Loki refuses more by default.
const LABELS_MAX: usize = 15;
/// Different combinations of values in a day: each is a stream, of which Loki allows a tenant 5,000 by default.
const VALUES_MAX: usize = 1000;
/// Bytes of all values of a message.
const VALUES_BYTES_MAX: usize = 4096;
/// Between the values in the name that is made of them; no value has it.
const SEPARATOR: char = '\n';

/// The accepted value of an option that names labels.
pub const LABEL_VALUES: Values = Values::Text {
    form: "hostname, appname, severity, facility, parsed.NAME, fields.NAME",
    pattern: "^(hostname|appname|severity|facility|(parsed|fields)\\.[^,{}]+)(,(hostname|appname|severity|facility|(parsed|fields)\\.[^,{}]+))*$",
};

static RULES: NameRules = NameRules {
    what: "list of labels",
    fields: &[Field::Parsed, Field::OfReader],
    // Such a label is left out.
    missing: "",
    letter: |letter| if letter.is_control() { ' ' } else { letter },
    bytes_max: VALUES_BYTES_MAX,
    names_max: Some(VALUES_MAX),
};

/// Labels whose values are fields that `parse` finds, or that the reader of a message knows.
#[derive(Clone, Debug)]
pub struct FieldLabels {
    /// As Loki has them.
    names: Arc<[String]>,
    template: NameTemplate,
}

impl FieldLabels {
    /// Makes the values of a message: what [`crate::Formatter::with_labels`] wants.
    #[must_use]
    pub fn template(&self) -> &NameTemplate {
        &self.template
    }

    /// The names and values of a message's labels, whose `name` was made by the template.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let values = name.split(SEPARATOR);
        self.names.iter().map(String::as_str).zip(values).filter(|(_, value)| !value.is_empty())
    }
}

impl Labels {
    /// Reads names with commas between them.
    ///
    /// # Errors
    /// A name is unknown, or two labels would have the same name; the error says what to write.
    pub fn parse(text: &str) -> Result<(Labels, Option<FieldLabels>), String> {
        let (mut labels, mut fields): (u8, Vec<&str>) = (0, Vec::new());
        for name in text.split(',') {
            if let Some(index) = NAMES.iter().position(|known| *known == name) {
                labels |= 1 << index;
            } else if name.starts_with("parsed.") || name.starts_with("fields.") {
                if !fields.contains(&name) {
                    fields.push(name);
                }
            } else {
                return Err(format!(
                    "{name:?} is not one of {}, parsed.NAME and fields.NAME",
                    NAMES.join(", ")
                ));
            }
        }
        let labels = Labels(labels);
        if fields.is_empty() {
            return Ok((labels, None));
        }
        let mut known: Vec<String> =
            [LISTENER].into_iter().chain(labels.names()).map(str::to_owned).collect();
        let first = known.len();
        for field in &fields {
            known.push(label_of(field, &known)?);
        }
        if known.len() > LABELS_MAX {
            return Err(format!("{} labels with {LISTENER}; Loki takes up to {LABELS_MAX}", known.len()));
        }
        let fields: Vec<String> = fields.iter().map(|field| format!("{{{field}}}")).collect();
        let template = NameTemplate::parse(&fields.join(&SEPARATOR.to_string()), &RULES)?;
        Ok((labels, Some(FieldLabels { names: known.split_off(first).into(), template })))
    }

    /// The names of the labels.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(index, _)| self.0 & 1 << index != 0).map(|(_, name)| name)
    }
}

/// The name of a field's label: letters of ASCII, digits and underscores, as Loki wants it. These labels are `known` already.
fn label_of(field: &str, known: &[String]) -> Result<String, String> {
    let (_, name) = field.split_once('.').unwrap_or_default();
    if name.contains(['{', '}']) {
        return Err(format!("{field:?} has a brace; write the name of a field"));
    }
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let mut label: String = name.chars().map(letter).collect();
    if label.starts_with(|first: char| first.is_ascii_digit()) {
        label.insert(0, '_');
    }
    if label.starts_with("__") {
        return Err(format!(
            "{field:?} is the label {label:?}; Loki keeps names that begin with __ for itself"
        ));
    }
    if known.contains(&label) {
        return Err(format!("{field:?} is the label {label:?}, as another one is; leave one of them out"));
    }
    Ok(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels of headers, and those of fields.
    fn names(text: &str) -> Result<(Vec<&'static str>, Vec<String>), String> {
        let (labels, fields) = Labels::parse(text)?;
        Ok((labels.names().collect(), fields.map_or_else(Vec::new, |fields| fields.names.to_vec())))
    }

    #[test]
    fn labels_are_read_and_a_wrong_one_is_named() {
        assert_eq!(names("severity,hostname,severity"), Ok((vec!["hostname", "severity"], Vec::new())));
        assert_eq!(Labels::default().names().count(), 0);
        for wrong in ["", "hostname,", "procid", "Hostname", " hostname", "parsed", "field.a"] {
            assert!(names(wrong).unwrap_err().contains("not one of hostname, appname"), "{wrong:?}");
        }
    }

    #[test]
    fn fields_are_labels_by_names_that_loki_takes() {
        let text = "parsed.http.method,severity,fields.pod,fields._SYSTEMD_UNIT,parsed.5xx,fields.pod";
        let expected = ["http_method", "pod", "_SYSTEMD_UNIT", "_5xx"].map(str::to_owned).to_vec();
        assert_eq!(names(text), Ok((vec!["severity"], expected)));
        let many: Vec<String> = (0..15).map(|number| format!("parsed.a{number}")).collect();
        assert_eq!(names(&many[..14].join(",")).map(|(_, fields)| fields.len()), Ok(14));
        for (wrong, says) in [
            (many.join(",").as_str(), "16 labels with listener; Loki takes up to 15"),
            ("parsed.severity,severity", "\"parsed.severity\" is the label \"severity\", as another one is"),
            ("fields.listener", "as another one is"),
            ("parsed.a.b,fields.a_b", "\"fields.a_b\" is the label \"a_b\""),
            ("parsed.__name__", "begin with __"),
            ("parsed.a{b}", "has a brace"),
            ("parsed.", "needs the name of a field"),
        ] {
            let error = names(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_label_without_a_value_is_left_out() {
        let (_, labels) = Labels::parse("parsed.a,parsed.b,fields.pod").unwrap();
        let labels = labels.unwrap();
        assert!(labels.values("x\n\nweb-0").eq([("a", "x"), ("pod", "web-0")]));
        assert!(labels.values(labels.template().fallback()).eq([
            ("a", "other"),
            ("b", "other"),
            ("pod", "other")
        ]));
    }
}
