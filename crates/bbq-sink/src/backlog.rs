//! What a sink may leave in the spool: how much, how old, and where a new one begins. The sink gives up what is over that and counts it, so
//! that a destination that is away holds up neither other sinks nor the listeners.

use std::time::Duration;

use bbq_rules::rule_options;
use bbq_spec::{ConfigError, NAME_OPTION, Query, SpecOption, Values};
use chrono::{DateTime, Utc};

/// More bytes waited than the sink may hold, and it was the oldest.
pub const OVER_LIMIT: &str = "over_limit";
/// Received longer ago than the sink may hold it.
pub(crate) const OVER_AGE: &str = "over_age";
/// Received before the sink was to begin.
pub(crate) const BEFORE: &str = "before-sink";

/// With `on_full=drop-oldest` a sink holds at most this part of the spool. The rest is for what comes while its destination is tried.
const PART_OF_SPOOL: (u64, u64) = (3, 4);
/// What is on its way to a destination that does not take it is given up when the limit is exceeded by this part: not for each byte that
/// comes.
const EXCESS_PART: u64 = 8;

static OPTIONS: [SpecOption; 4] = [
    SpecOption {
        key: "spool_bytes_max",
        values: Values::Size(64 * 1024..=1 << 50),
        default: "unlimited",
        meaning: "how many bytes may wait in the spool for this sink; over that, the oldest messages are dropped for this sink only (`over_limit`)",
    },
    SpecOption {
        key: "spool_seconds_max",
        values: Values::Number(1..=366 * 86_400),
        default: "unlimited",
        meaning: "how long a message may wait for this sink; older messages are dropped for this sink only (`over_age`)",
    },
    SpecOption {
        key: "on_full",
        values: Values::Words(&["hold", "drop-oldest"]),
        default: "hold",
        meaning: "what the sink does before its messages fill the spool: `hold` keeps them, and the listeners wait; `drop-oldest` drops \
                  its oldest messages, so that at most three quarters of the spool wait for it (`over_limit`)",
    },
    SpecOption {
        key: "start",
        values: Values::Text {
            form: "oldest, end, or a time such as 2026-01-31T23:59:59Z",
            pattern: "^(oldest|end|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].*)$",
        },
        default: "oldest",
        meaning: "where a new sink begins: at the oldest message in the spool, at the messages that come from now on, or at a time; it \
                  does not get messages received earlier (`before-sink`)",
    },
];

/// The options that every kind of sink has; a sink that passes everything on refuses rules.
pub fn common_options() -> impl Iterator<Item = &'static SpecOption> {
    [&NAME_OPTION].into_iter().chain(&OPTIONS).chain(rule_options())
}

/// Where a sink begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Start {
    #[default]
    Oldest,
    End,
    /// Unix nanoseconds.
    At(u64),
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    bytes_max: Option<u64>,
    age_max: Option<Duration>,
    drops_oldest: bool,
    start: Start,
}

/// What waits for a sink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// In the lanes.
    pub bytes: u64,
    /// Those of them that come after the oldest group: without any, that group is kept, however large it is.
    pub(crate) bytes_after_first: u64,
    /// When the oldest of it was received, Unix nanoseconds, if that is known.
    pub received_ns: Option<u64>,
}

impl Backlog {
    /// Takes the options.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn take(query: &mut Query<'_>) -> Result<Backlog, ConfigError> {
        let [bytes, seconds, on_full, start] = OPTIONS.each_ref().map(|option| option.key);
        Ok(Backlog {
            bytes_max: query.take_number(bytes)?,
            age_max: query.take_number(seconds)?.map(Duration::from_secs),
            drops_oldest: query
                .take_word(on_full, &[("hold", false), ("drop-oldest", true)])?
                .unwrap_or_default(),
            start: query.take(start, Start::parse)?.unwrap_or_default(),
        })
    }

    /// Limits that were not read from text: they may be smaller than an operator's.
    pub(crate) fn of_limits(
        bytes_max: Option<u64>,
        age_max: Option<Duration>,
        drops_oldest: bool,
    ) -> Backlog {
        Backlog { bytes_max, age_max, drops_oldest, start: Start::Oldest }
    }

    /// Whether messages may be given up that the destination has not got.
    pub(crate) fn gives_up(&self) -> bool {
        self.bytes_max.is_some() || self.age_max.is_some() || self.drops_oldest
    }

    /// Whether every message is submitted that comes after the sink was added.
    pub(crate) fn takes_all(&self) -> bool {
        !self.gives_up() && !matches!(self.start, Start::At(_))
    }

    /// Whether a new sink gets only what comes from now on.
    pub(crate) fn begins_at_end(&self) -> bool {
        self.start == Start::End
    }

    /// Why the first group of what waits is not submitted, if so.
    pub(crate) fn why_not(
        &self,
        waiting: Waiting,
        spool_bytes_max: u64,
        now: DateTime<Utc>,
    ) -> Option<&'static str> {
        if let Start::At(start) = self.start
            && waiting.received_ns.is_some_and(|received| received < start)
        {
            return Some(BEFORE);
        }
        if self.bytes_max(spool_bytes_max).is_some_and(|max| waiting.is_over(max)) {
            return Some(OVER_LIMIT);
        }
        self.age_max.is_some_and(|max| waiting.is_older_than(max, now)).then_some(OVER_AGE)
    }

    /// Whether what waits is so far over a limit that what is on its way is given up, too. `why_not` then gives up the first group at least,
    /// so that no two tries end alike.
    pub(crate) fn is_far_exceeded(
        &self,
        waiting: Waiting,
        (spool_bytes_max, is_nearly_full): (u64, bool),
        now: DateTime<Utc>,
    ) -> bool {
        let is_over = |max: u64| waiting.is_over(max + if is_nearly_full { 0 } else { max / EXCESS_PART });
        let is_old = |max: Duration| waiting.is_older_than(max + max / EXCESS_PART as u32, now);
        self.bytes_max(spool_bytes_max).is_some_and(is_over) || self.age_max.is_some_and(is_old)
    }

    fn bytes_max(&self, spool_bytes_max: u64) -> Option<u64> {
        let (part, whole) = PART_OF_SPOOL;
        let of_spool = self.drops_oldest.then_some(spool_bytes_max / whole * part);
        self.bytes_max.into_iter().chain(of_spool).min()
    }
}

impl Waiting {
    fn is_over(&self, bytes_max: u64) -> bool {
        self.bytes > bytes_max && self.bytes_after_first > 0
    }

    /// No message is old if the clock has gone back since.
    fn is_older_than(&self, max: Duration, now: DateTime<Utc>) -> bool {
        let now = now.timestamp_nanos_opt().and_then(|now| u64::try_from(now).ok()).unwrap_or(u64::MAX);
        self.received_ns.is_some_and(|received| Duration::from_nanos(now.saturating_sub(received)) > max)
    }
}

/// Unix nanoseconds of a time as an operator writes it; `None` before 1970, and of other text.
pub fn rfc3339_ns(text: &str) -> Option<u64> {
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    u64::try_from(time.timestamp_nanos_opt()?).ok()
}

impl Start {
    fn parse(text: &str) -> Result<Start, String> {
        match text {
            "oldest" => Ok(Start::Oldest),
            "end" => Ok(Start::End),
            _ => {
                let values = &OPTIONS[3].values;
                let place = rfc3339_ns(text).map(Start::At);
                place.ok_or_else(|| format!("{text:?} is not a place to begin at; write {values}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbq_spec::SpecText;

    fn backlog(options: &str) -> Result<Backlog, String> {
        let spec = SpecText::of_text(&format!("null:?{options}")).map_err(|error| error.to_string())?;
        let mut query = Query::of(&spec, common_options()).map_err(|error| error.to_string())?;
        Backlog::take(&mut query).map_err(|error| error.to_string())
    }

    #[test]
    fn the_least_of_the_limits_counts() {
        let max = |options: &str| backlog(options).unwrap().bytes_max(1 << 30);
        assert_eq!(max("name=a"), None);
        assert_eq!(max("on_full=hold"), None);
        assert_eq!(max("on_full=drop-oldest"), Some(3 << 28));
        assert_eq!(max("on_full=drop-oldest&spool_bytes_max=1MiB"), Some(1 << 20));
        assert_eq!(max("on_full=drop-oldest&spool_bytes_max=1TiB"), Some(3 << 28));
        assert!(
            !backlog("start=end").unwrap().gives_up() && backlog("spool_seconds_max=1").unwrap().gives_up()
        );
    }

    #[test]
    fn what_is_on_its_way_is_given_up_when_the_limit_is_exceeded_by_an_eighth() {
        let backlog = backlog("spool_bytes_max=80KiB&spool_seconds_max=80").unwrap();
        let now = DateTime::from_timestamp(1000, 0).unwrap();
        let exceeds = |kib: u64, received: Option<u64>| {
            let received_ns = received.map(|seconds| seconds * 1_000_000_000);
            let waiting = Waiting { bytes: kib << 10, bytes_after_first: 1, received_ns };
            [false, true]
                .map(|is_nearly_full| backlog.is_far_exceeded(waiting, (1 << 40, is_nearly_full), now))
        };
        let (none, when_full, always) = ([false; 2], [false, true], [true; 2]);
        assert_eq!([80, 81, 90, 91].map(|kib| exceeds(kib, None)), [none, when_full, when_full, always]);
        assert_eq!(
            [2000, 920, 910, 909].map(|received| exceeds(0, Some(received))),
            [none, none, none, always]
        );
    }

    /// Otherwise what is rolled back would be submitted again and rolled back, without an end.
    #[test]
    fn what_is_far_over_a_limit_is_given_up_when_it_is_read_again() {
        let backlog = backlog("spool_bytes_max=64KiB&spool_seconds_max=80").unwrap();
        let now = DateTime::from_timestamp(1000, 0).unwrap();
        let check = |bytes, bytes_after_first, seconds: u64| {
            let waiting = Waiting { bytes, bytes_after_first, received_ns: Some(seconds * 1_000_000_000) };
            for is_nearly_full in [false, true] {
                let is_far = backlog.is_far_exceeded(waiting, (1 << 40, is_nearly_full), now);
                assert!(!is_far || backlog.why_not(waiting, 1 << 40, now).is_some(), "{waiting:?}");
            }
        };
        for bytes in [0, 65_536, 65_537, 80_000, 1 << 30] {
            for bytes_after_first in [0, 1, 70_000] {
                for seconds in [0, 909, 919, 920, 1000, 2000] {
                    check(bytes, bytes_after_first, seconds);
                }
            }
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (options, says) in [
            ("spool_bytes_max=1", "64KiB to 1PiB"),
            ("spool_seconds_max=0", "1 to 31622400"),
            ("on_full=block", "hold, drop-oldest"),
            ("start=yesterday", "oldest, end, or a time such as 2026-01-31T23:59:59Z"),
            ("start=1960-01-01T00:00:00Z", "not a place to begin at"),
        ] {
            let error = backlog(options).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(backlog("start=1970-01-01T00:00:01Z").unwrap().start, Start::At(1_000_000_000));
    }
}
