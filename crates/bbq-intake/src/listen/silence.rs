//! When a tcp connection whose peer is gone ends, as a SPEC configures it. A peer that lost its power or its network says nothing, and
//! its connection would stay for ever.

use std::time::Duration;

use bbq_listen::{Address, KEEPALIVE_DEFAULT};
use bbq_spec::{ConfigError, Query, SpecOption, Values};

/// The keep-alive of Linux has nine probes, ten seconds apart in bbq-listen: with this they all count, and an acknowledgement that does
/// not arrive ends a connection no later than silence does. A client whose network is away for longer connects again.
const USER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(150);

pub(super) const KEEPALIVE: SpecOption = SpecOption {
    key: "keepalive_seconds",
    // The longest time of `TCP_KEEPIDLE`.
    values: Values::NumberOrNever(1..=32_767),
    default: "60",
    meaning: "tcp: a connection that was silent for this long is probed every 10 s",
};
pub(super) const USER_TIMEOUT: SpecOption = SpecOption {
    key: "user_timeout_seconds",
    values: Values::NumberOrNever(1..=86_400),
    default: "150",
    meaning: "tcp: a connection ends when sent data or probes stay unanswered for this long; 0 leaves this to the system",
};

/// The time-outs of connections over tcp; `None` is never, or the system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// When a silent connection is probed.
    pub keepalive: Option<Duration>,
    /// When a connection ends that is not answered.
    pub user_timeout: Option<Duration>,
}

impl Silence {
    pub(super) fn take(query: &mut Query<'_>, text: &str, address: &Address) -> Result<Silence, ConfigError> {
        if !matches!(address, Address::Tcp(_))
            && let Some(key) = [KEEPALIVE.key, USER_TIMEOUT.key].into_iter().find(|key| query.is_written(key))
        {
            return Err(ConfigError::new(format!(
                "{text:?}: {key} has no meaning here: it is for tcp; leave it out"
            )));
        }
        let mut take = |key, default| {
            let seconds = query.take_number(key)?.map_or(default, Duration::from_secs);
            Ok::<_, ConfigError>(Some(seconds).filter(|seconds| !seconds.is_zero()))
        };
        Ok(Silence {
            keepalive: take(KEEPALIVE.key, KEEPALIVE_DEFAULT)?,
            user_timeout: take(USER_TIMEOUT.key, USER_TIMEOUT_DEFAULT)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::ListenSpec;

    #[test]
    fn the_default_is_the_one_that_is_shown_and_0_is_never() {
        let of =
            |options: &str| ListenSpec::parse(&format!("lines+tcp://127.0.0.1:1?{options}")).unwrap().silence;
        let silence =
            Silence { keepalive: Some(KEEPALIVE_DEFAULT), user_timeout: Some(USER_TIMEOUT_DEFAULT) };
        assert_eq!(of(""), silence);
        assert_eq!(
            of(&format!(
                "keepalive_seconds={}&user_timeout_seconds={}",
                KEEPALIVE.default, USER_TIMEOUT.default
            )),
            silence
        );
        assert_eq!(
            of("keepalive_seconds=0&user_timeout_seconds=0"),
            Silence { keepalive: None, user_timeout: None }
        );
        let error = ListenSpec::parse("lines+unix:///run/log?keepalive_seconds=5").unwrap_err().to_string();
        assert!(error.contains("it is for tcp"), "{error}");
    }
}
