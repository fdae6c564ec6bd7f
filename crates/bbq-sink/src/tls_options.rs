//! The options of sinks that reach their destination by TLS.

use std::path::PathBuf;

use bbq_spec::{ConfigError, Query, SpecOption, Values};
use bbq_tls::ClientTls;

/// One file.
pub const PATH: Values = Values::Text { form: "PATH", pattern: "^[^,]+$" };

/// `tls_ca`
pub const CA: SpecOption = SpecOption {
    key: "tls_ca",
    values: PATH,
    default: "the system's",
    meaning: "CA certificates (PEM): one of these CAs must have issued the server's certificate",
};
/// `tls_cert`
pub const CERTIFICATE: SpecOption = SpecOption {
    key: "tls_cert",
    values: PATH,
    default: "none",
    meaning: "the certificate (PEM) for a server that asks for one; needs `tls_key`",
};
/// `tls_key`
pub const KEY: SpecOption = SpecOption {
    key: "tls_key",
    values: PATH,
    default: "none",
    meaning: "the private key (PEM) of `tls_cert`",
};
/// What [`take`] takes.
pub const OPTIONS: [SpecOption; 3] = [CA, CERTIFICATE, KEY];

/// Takes the options. `shown` is the SPEC for errors.
///
/// # Errors
/// The options contradict each other, or a file cannot be used.
pub fn take(shown: &str, query: &mut Query<'_>) -> Result<ClientTls, ConfigError> {
    let tls = take_paths(shown, query)?;
    // Mistakes are told at the start. The files are read again when the sink is opened, or connects.
    tls.read().map_err(|error| ConfigError::new(format!("{shown:?}: {error}")))?;
    Ok(tls)
}

/// The same, without a look at the files.
///
/// # Errors
/// The options contradict each other.
pub fn take_paths(shown: &str, query: &mut Query<'_>) -> Result<ClientTls, ConfigError> {
    let wrong = |why: &str| ConfigError::new(format!("{shown:?}: {why}"));
    let mut path = |key| query.take(key, |path| Ok(PathBuf::from(path)));
    let (ca, certificate, key) = (path("tls_ca")?, path("tls_cert")?, path("tls_key")?);
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(wrong("tls_cert needs its key; also write tls_key=PATH")),
        (None, Some(_)) => return Err(wrong("tls_key needs its certificate; also write tls_cert=PATH")),
    };
    Ok(ClientTls { ca, certificate })
}
