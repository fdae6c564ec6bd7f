//! The token that `bbq send`, `bbq status` and `bbq tail` show: from a file, or from the environment. Not from an option, as every user of the
//! machine can read those.

use std::path::Path;

use anyhow::anyhow;
use bbq_server::config::Secret;

/// The environment variable.
const VARIABLE: &str = "BBQ_TOKEN";

/// Reads the token of `file`, or of the environment; `None` if there is neither.
pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    let token = match file {
        Some(file) => Secret::of_file(file),
        None if std::env::var_os(VARIABLE).is_some() => Secret::of_environment(VARIABLE),
        None => return Ok(None),
    };
    token.map(Some).map_err(|problem| anyhow!("{problem}"))
}
