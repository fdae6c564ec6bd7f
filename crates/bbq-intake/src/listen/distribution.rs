//! How connections and datagrams are spread, as a SPEC and the file say it.

use std::str::FromStr;

use bbq_listen::ListenError;
use bbq_spec::Values;

/// How connections and datagrams are spread.
pub const DISTRIBUTIONS: Values = Values::Text {
    form: "auto, reuseport, shared, accept-mutex, handoff, handoff=fewest, duplicate, duplicate=N",
    pattern: "^(auto|reuseport|shared|accept-mutex|handoff(=fewest)?|duplicate(=[0-9]+)?)$",
};

/// Parses a distribution or a steering.
pub fn parsed<T: FromStr<Err = ListenError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ListenError| error.to_string())
}
