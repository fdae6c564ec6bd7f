//! What the fields of an entry of the journal say, by the names of syslog.

use crate::syslog::{SyslogFields, facility_word, severity_word};

/// The fields of syslog that these fields of a record are. The message has no header, so nothing else is known.
#[must_use]
pub fn fields<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> SyslogFields {
    let mut found = SyslogFields::default();
    for (name, value) in fields {
        let text = || Some(value.to_owned());
        match name {
            "PRIORITY" => found.severity = severity_word(value),
            "SYSLOG_FACILITY" => found.facility = facility_word(value),
            "_HOSTNAME" => found.hostname = text(),
            "SYSLOG_IDENTIFIER" => found.appname = text(),
            // The name of the program, if it gave none to syslog.
            "_COMM" => found.appname = found.appname.take().or_else(text),
            "_PID" => found.procid = text(),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_journal_are_those_of_syslog() {
        let of = |given: &[(&'static str, &'static str)]| fields(given.iter().copied());
        let all = [
            ("_COMM", "sshd-session"),
            ("PRIORITY", "3"),
            ("SYSLOG_FACILITY", "10"),
            ("_HOSTNAME", "web"),
            ("SYSLOG_IDENTIFIER", "sshd"),
            ("_PID", "7"),
        ];
        let found = of(&all);
        assert_eq!((found.severity, found.facility), (Some("err"), Some("authpriv")));
        assert_eq!(found.appname.as_deref(), Some("sshd"));
        assert_eq!((found.hostname.as_deref(), found.procid.as_deref()), (Some("web"), Some("7")));
        assert_eq!(of(&[("SYSLOG_IDENTIFIER", "a"), ("_COMM", "b")]).appname.as_deref(), Some("a"));
        assert_eq!(of(&[("_COMM", "b")]).appname.as_deref(), Some("b"));
        assert_eq!(of(&[("PRIORITY", "8"), ("SYSLOG_FACILITY", "x")]), SyslogFields::default());
    }
}
