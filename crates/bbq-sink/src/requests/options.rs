//! The options of every sink that makes requests.

use std::time::Duration;

use bbq_spec::{ConfigError, Query, SpecOption, Values};

/// Most requests in flight: memory is bounded by this many bodies.
pub(super) const IN_FLIGHT_MAX: u64 = 16;
/// Seconds.
const TIMEOUT_DEFAULT: u64 = 30;
const CONNECTION_DEFAULT: u64 = 300;

const IN_FLIGHT: SpecOption = SpecOption {
    key: "in_flight",
    values: Values::NumberOrAuto(1..=IN_FLIGHT_MAX),
    default: "1",
    meaning: "requests in flight at a time; with more than 1, messages may arrive out of order. `auto`: as many as do not make the receiver slower",
};
const TIMEOUT: SpecOption = SpecOption {
    key: "timeout_seconds",
    values: Values::Number(1..=3600),
    default: "30",
    meaning: "how long a response may take. A request without a response in this time has failed; the next one has half as much",
};
const CONNECTION: SpecOption = SpecOption {
    key: "connection_seconds_max",
    values: Values::Number(1..=86_400),
    default: "300",
    meaning: "after this time a connection is replaced by a new one, for which the server's name is resolved again",
};
/// What [`RequestOptions::take`] takes.
pub const REQUEST_OPTIONS: [SpecOption; 3] = [IN_FLIGHT, TIMEOUT, CONNECTION];

/// How a sink makes requests, as far as its SPEC says so.
#[derive(Clone, Copy, Debug)]
pub struct RequestOptions {
    /// Most requests at a time; `None` if that follows the receiver.
    pub in_flight: Option<usize>,
    /// From the beginning of a request to its verdict.
    pub timeout: Duration,
    /// How long a connection is used.
    pub connection: Duration,
}

impl RequestOptions {
    /// Takes the options.
    ///
    /// # Errors
    /// One of them is wrong.
    pub fn take(query: &mut Query<'_>) -> Result<RequestOptions, ConfigError> {
        let in_flight = query.take_number(IN_FLIGHT.key)?.unwrap_or(1);
        let timeout = query.take_number(TIMEOUT.key)?.unwrap_or(TIMEOUT_DEFAULT);
        let connection = query.take_number(CONNECTION.key)?.unwrap_or(CONNECTION_DEFAULT);
        Ok(RequestOptions {
            in_flight: usize::try_from(in_flight).ok().filter(|in_flight| *in_flight > 0),
            timeout: Duration::from_secs(timeout),
            connection: Duration::from_secs(connection),
        })
    }
}
