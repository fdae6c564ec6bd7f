//! The token that `bbq send`, `bbq status`, `bbq reload` and `bbq tail` show: from a file, or from the environment. Not from an option, as every user of the
//! machine can read those.

use std::path::Path;

use anyhow::anyhow;
use bbq_server::config::Secret;
use bbq_wire::Token;
use bbq_wire::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};

/// The environment variable.
const VARIABLE: &str = "BBQ_TOKEN";

/// Reads the token of `file`, or of the environment; `None` if there is neither.
pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    let (token, shown) = match file {
        Some(file) => {
            let read = Secret::of_file(file).map_err(|problem| format!("--token-file: {problem}"));
            (read, format!("--token-file {}", file.display()))
        }
        None if std::env::var_os(VARIABLE).is_some() => {
            (Secret::of_environment(VARIABLE), format!("environment variable {VARIABLE}"))
        }
        None => return Ok(None),
    };
    let token = token.map_err(|problem| anyhow!("{problem}"))?;
    match why_no_token(token.expose()) {
        Some(why) => Err(anyhow!("{shown}: {why}")),
        None => Ok(Some(token)),
    }
}

/// Why a text is no token, and what to do. Without the text, which may be a secret.
fn why_no_token(text: &str) -> Option<String> {
    let form = format!("{TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters");
    if Token::new(text).is_some() {
        None
    } else if text.contains(char::is_whitespace) {
        Some(format!(
            "it has more than one word; a client shows one token of {form}, without the name before it in a server's file"
        ))
    } else {
        Some(format!("it is not a token; a token has {form}"))
    }
}
