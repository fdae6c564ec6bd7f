//! What a viewer asks for, as the query of the URL.

use std::sync::Arc;
use std::time::Duration;

use bbq_wire::StreamId;
use memchr::memmem::Finder;

use super::filter::{
    EXPRESSION_BYTES_MAX, Filter, PeerFilter, WORD_BYTES_MAX, facility, pattern, rules, severities,
};

/// Messages per second for a viewer: more than anybody reads.
const RATE_MAX: u32 = 1000;

/// Where a viewer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Now,
    Beginning,
    /// With what was received this long ago.
    Ago(Duration),
}

#[derive(Debug)]
pub(crate) struct TailQuery {
    pub(super) filter: Filter,
    pub(super) from: From,
    /// Messages per second, at most.
    pub(super) rate: u32,
}

impl TailQuery {
    /// Reads `listener=NAME&severity=err`.
    ///
    /// # Errors
    /// A word is unknown, or a value is not one of it. The text says what to write.
    pub(crate) fn of(query: &str) -> Result<TailQuery, String> {
        let mut wanted = TailQuery { filter: Filter::default(), from: From::Now, rate: RATE_MAX };
        let (mut condition, mut parse) = (None, None);
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let rule = match &*key {
                "where" => Some(&mut condition),
                "parse" => Some(&mut parse),
                _ => None,
            };
            let bytes_max = if rule.is_some() { EXPRESSION_BYTES_MAX } else { WORD_BYTES_MAX };
            if value.len() > bytes_max {
                return Err(format!("{key} has {} bytes, at most {bytes_max}", value.len()));
            }
            match rule {
                Some(rule) => *rule = Some(value.into_owned()),
                None => wanted.set(&key, &value).map_err(|what| format!("{key}={value}: {what}"))?,
            }
        }
        if condition.is_some() || parse.is_some() {
            let rules = rules(condition.as_deref(), parse.as_deref())?;
            if rules.parses() {
                wanted.filter.parser = Some(Arc::new(rules.clone()));
            }
            wanted.filter.rules = Some(rules);
        }
        Ok(wanted)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let filter = &mut self.filter;
        match key {
            "listener" => filter.listener = Some(value.to_owned()),
            "peer" => {
                let peer = PeerFilter::of(value);
                filter.peer = Some(peer.ok_or("use ADDRESS, ADDRESS:PORT, pid:N or uid:N, in numbers")?);
            }
            "stream" => {
                let id = u128::from_str_radix(value, 16).ok().filter(|_| value.len() == 32);
                filter.stream = Some(StreamId(id.ok_or("use 32 hexadecimal digits")?.to_be_bytes()));
            }
            "facility" => {
                filter.facility = Some(facility(value).ok_or("use a facility such as auth or local0")?)
            }
            "severity" => {
                let use_one = "use emerg, alert, crit, err, warning, notice, info or debug, or two of them as err..warning";
                filter.severity = Some(severities(value).ok_or(use_one)?);
            }
            "text" => filter.text = Some(Finder::new(value).into_owned()),
            "grep" => filter.pattern = Some(pattern(value)?),
            "from" => {
                self.from = from(value).ok_or("use now, beginning, or how long ago: 90s, 10m, 2h or 1d")?
            }
            "rate" => {
                let rate = value.parse().ok().filter(|rate| (1..=RATE_MAX).contains(rate));
                self.rate = rate.ok_or_else(|| format!("use 1 to {RATE_MAX} messages per second"))?;
            }
            _ => {
                return Err(
                    "use listener, peer, stream, facility, severity, text, grep, where, parse, from or rate"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

pub(crate) fn from(word: &str) -> Option<From> {
    match word {
        "now" => return Some(From::Now),
        "beginning" => return Some(From::Beginning),
        _ => {}
    }
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = word.split_at(digits);
    let seconds: u64 = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    Some(From::Ago(Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(seconds)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_a_mistake_says_what_to_write() {
        let query = TailQuery::of("listener=a%20b&severity=err&grep=x%2B&from=10m&rate=5").unwrap();
        assert_eq!(query.filter.listener.as_deref(), Some("a b"));
        assert_eq!((query.from, query.rate), (From::Ago(Duration::from_secs(600)), 5));
        assert_eq!(TailQuery::of("").unwrap().from, From::Now);
        for (wrong, says) in [
            ("lisener=a", "use listener, peer"),
            ("grep=(", "grep=(: it is not a regular expression: unclosed group"),
            ("grep=\\w{9000}", "size limit"),
            ("from=soon", "use now"),
            ("from=99999999999999999999h", "use now"),
            ("rate=0", "1 to 1000"),
            ("stream=12", "32 hexadecimal"),
            ("peer=host.example", "in numbers"),
            ("where=sverity+<+4", "where: column 1: \"sverity\" is not a name (did you mean \"severity\"?)"),
            ("where=parsed.level+==+1", "where: column 1: nothing is parsed"),
            ("parse=xml", "parse: \"xml\" is not one of json, logfmt, syslog or /PATTERN/"),
        ] {
            let said = TailQuery::of(wrong).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
        assert!(TailQuery::of(&format!("text={}", "x".repeat(2000))).is_err());
        assert!(TailQuery::of(&format!("where=message=='{}'", "x".repeat(4000))).is_ok());
        assert!(TailQuery::of(&format!("where=message=='{}'", "x".repeat(4100))).is_err());
        let patterns = |count: usize| ["message.matches('a')"].repeat(count).join("%7C%7C");
        assert!(TailQuery::of(&format!("where={}", patterns(4))).is_ok());
        assert!(TailQuery::of(&format!("where={}", patterns(5))).unwrap_err().contains("4 patterns"));
    }
}
