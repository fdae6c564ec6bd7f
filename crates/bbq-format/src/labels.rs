//! The labels of messages at Loki, by which it finds them.

use bbq_spec::Values;

/// Fields of a message that are labels beside `listener`, as bits by their place in `NAMES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labels(u8);

const NAMES: [&str; 4] = ["hostname", "appname", "severity", "facility"];
/// The accepted value of an option that names labels.
pub const LABEL_VALUES: Values = Values::Text {
    form: "hostname, appname, severity, facility",
    pattern: "^(hostname|appname|severity|facility)(,(hostname|appname|severity|facility))*$",
};

impl Labels {
    /// Reads names with commas between them.
    ///
    /// # Errors
    /// A name is unknown; the error says which there are.
    pub fn parse(text: &str) -> Result<Labels, String> {
        let mut labels = 0;
        for name in text.split(',') {
            let index = NAMES.iter().position(|known| *known == name);
            let index = index.ok_or_else(|| format!("{name:?} is not one of {}", NAMES.join(", ")))?;
            labels |= 1 << index;
        }
        Ok(Labels(labels))
    }

    /// The names of the labels.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(index, _)| self.0 & 1 << index != 0).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_and_a_wrong_one_is_named() {
        let names = |text| Labels::parse(text).map(|labels| labels.names().collect::<Vec<_>>());
        assert_eq!(names("severity,hostname,severity"), Ok(vec!["hostname", "severity"]));
        assert_eq!(Labels::default().names().count(), 0);
        for wrong in ["", "hostname,", "procid", "Hostname", " hostname"] {
            assert!(names(wrong).unwrap_err().contains("not one of hostname, appname"), "{wrong:?}");
        }
    }
}
