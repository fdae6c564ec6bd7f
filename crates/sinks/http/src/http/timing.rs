//! How long a sink waits for a response, and how long it uses a connection.

use std::time::Duration;

use bbq_spec::{ConfigError, Query, SpecOption, Values};

/// Seconds.
const TIMEOUT_DEFAULT: u64 = 30;
const CONNECTION_DEFAULT: u64 = 300;

pub(crate) const TIMEOUT: SpecOption = SpecOption {
    key: "timeout_seconds",
    values: Values::Number(1..=3600),
    default: "30",
    meaning: "a request whose response does not come in this time has failed; half as much is sent next",
};
pub(crate) const CONNECTION: SpecOption = SpecOption {
    key: "connection_seconds_max",
    values: Values::Number(1..=86_400),
    default: "300",
    meaning: "after this time a new connection is made, which finds the server where its name leads by then",
};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// From the beginning of a request to the head of its response, and from there to the end of its body.
    pub timeout: Duration,
    pub connection: Duration,
}

/// A time-out is told by the sink itself: this is for what hangs in spite of it.
const BEYOND_TIMEOUT: Duration = Duration::from_secs(10);

impl Timing {
    /// The head of a response and the rest of it have a time-out each.
    pub(crate) fn takes_within(&self) -> Duration {
        2 * self.timeout + BEYOND_TIMEOUT
    }

    /// Takes the options.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn take(query: &mut Query<'_>) -> Result<Timing, ConfigError> {
        let timeout = query.take_number(TIMEOUT.key)?.unwrap_or(TIMEOUT_DEFAULT);
        let connection = query.take_number(CONNECTION.key)?.unwrap_or(CONNECTION_DEFAULT);
        Ok(Timing { timeout: Duration::from_secs(timeout), connection: Duration::from_secs(connection) })
    }
}
