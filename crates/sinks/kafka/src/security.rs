//! How a sink reaches Kafka's brokers safely, and proves who it is.

use bbq_sink::tls_options;
use bbq_spec::{ConfigError, Query, Secret};
use bbq_tls::ClientTls;
use rdkafka::ClientConfig;

/// The names that the brokers know.
const MECHANISMS: [(&str, &str); 3] =
    [("plain", "PLAIN"), ("scram-sha-256", "SCRAM-SHA-256"), ("scram-sha-512", "SCRAM-SHA-512")];
pub(super) const MECHANISM_WORDS: &[&str] = &["plain", "scram-sha-256", "scram-sha-512"];

/// TLS and SASL, or neither.
#[derive(Clone, Debug, Default)]
pub(super) struct Security {
    tls: Option<ClientTls>,
    sasl: Option<Sasl>,
}

#[derive(Clone, Debug)]
struct Sasl {
    mechanism: &'static str,
    user: String,
    password: Secret,
}

impl Security {
    /// Takes the options. `shown` is the SPEC for errors.
    pub(super) fn take(shown: &str, query: &mut Query<'_>) -> Result<Security, ConfigError> {
        let wrong = |why: &str| ConfigError::new(format!("{shown:?}: {why}"));
        let wants_tls = query.take_word("tls", &[("off", false), ("on", true)])?.unwrap_or_default();
        let tls = tls_options::take_paths(shown, query)?;
        let has_files = tls.ca.is_some() || tls.certificate.is_some();
        let tls = (wants_tls || has_files).then_some(tls);
        if let Some(tls) = &tls {
            // Mistakes are told at the start. librdkafka reads the files again for each producer.
            tls.read().map_err(|error| wrong(&error.to_string()))?;
        }
        let mechanism = query.take_word("sasl", &MECHANISMS)?;
        let user = query.take("user", |user| Ok(user.to_owned()))?;
        let password = query.take_secret("password")?;
        let sasl = match (user, password) {
            (None, None) if mechanism.is_some() => {
                return Err(wrong("sasl needs user=NAME, and password_file=PATH or password_env=NAME"));
            }
            (None, None) => None,
            (Some(_), None) => return Err(wrong("user needs password_file=PATH or password_env=NAME")),
            (None, Some(_)) => return Err(wrong("the password needs user=NAME")),
            (Some(user), Some(password)) => {
                let mechanism = mechanism.unwrap_or(MECHANISMS[2].1);
                Some(Sasl { mechanism, user, password })
            }
        };
        Ok(Security { tls, sasl })
    }

    /// Whether the connection is not encrypted.
    pub(super) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    pub(super) fn apply(&self, config: &mut ClientConfig) {
        let protocol = match (&self.tls, &self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(ClientTls { ca, certificate }) = &self.tls {
            // A path that is not UTF-8 is refused when it is read from the SPEC, which is.
            if let Some(ca) = ca {
                config.set("ssl.ca.location", ca.to_string_lossy());
            }
            if let Some((certificate, key)) = certificate {
                config.set("ssl.certificate.location", certificate.to_string_lossy());
                config.set("ssl.key.location", key.to_string_lossy());
            }
        }
        if let Some(Sasl { mechanism, user, password }) = &self.sasl {
            config.set("sasl.mechanism", *mechanism);
            config.set("sasl.username", user);
            config.set("sasl.password", password.expose());
        }
    }
}
