//! The SPEC of a sink that passes messages on to another bbq server.

use std::sync::Arc;

use bbq_storage::Storage;
use bbq_wire::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use bbq_wire::session::Token;
use hyper::Uri;

use super::next_server::{NextServer, link_of, new_link};
use super::sink::ForwardSink;
use crate::config::ConfigError;
use crate::config::query::{Query, SpecOption};
use crate::config::values::Values;
use crate::sink::dead_letters::DEAD_LETTERS_OPTION;
use crate::sink::interface::{Now, OpenError, Sink};
use crate::sink::kind::{Kind, Target};

/// The port of a bbq server, unless it is configured.
const PORT_DEFAULT: u16 = 7700;

pub(in crate::sink) static FORWARD: Kind = Kind {
    word: "bbq",
    argument: "//HOST[:PORT]",
    summary: "passes messages on to another bbq server",
    options: &[
        SpecOption {
            key: "token",
            values: Values::Secret,
            default: "none",
            meaning: "what the next server asks for, if its listener has `tokens`",
        },
        DEAD_LETTERS_OPTION,
    ],
    is_exclusive: false,
    parse,
};

fn parse(argument: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    let text = format!("bbq:{argument}");
    let wrong = |why: &str| ConfigError::new(format!("{text:?}: {why}; write bbq://HOST:PORT"));
    if argument == "//" {
        return Err(wrong("it has no host"));
    }
    let uri: Uri = text.parse().map_err(|error| wrong(&format!("{error}")))?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it has no host"))?;
    if uri.path() != "/" && !uri.path().is_empty() {
        return Err(wrong("nothing may follow the port"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(wrong("it has no user"));
    }
    let has_port = uri.authority().is_some_and(|authority| authority.as_str().len() > host.len());
    let port = match uri.port_u16() {
        Some(port) if port > 0 => port,
        None if !has_port => PORT_DEFAULT,
        _ => return Err(wrong("the port is not a number from 1 to 65535")),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let token = query.take_secret("token")?;
    let token = token.map(|secret| {
        let why = || {
            wrong(&format!(
                "the token is not {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters"
            ))
        };
        Token::new(secret.expose()).ok_or_else(why)
    });
    Ok(Arc::new(NextServer { host, port, token: token.transpose()? }))
}

impl Target for NextServer {
    fn is_next_server(&self) -> bool {
        true
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let id = match state.and_then(link_of) {
            Some(id) => id,
            None => new_link().map_err(OpenError::NotYet)?,
        };
        let sink = ForwardSink::new(self.clone(), id).map_err(OpenError::NotYet)?;
        Ok(Box::new(sink))
    }
}

#[cfg(test)]
mod tests {
    use crate::sink::SinkSpec;

    #[test]
    fn mistakes_in_the_address_are_named() {
        for (spec, words) in [
            ("bbq:logs1:7700", "invalid"),
            ("bbq://", "no host"),
            ("bbq://:7700", "no host"),
            ("bbq://logs1:0", "the port"),
            ("bbq://logs1:", "the port"),
            ("bbq://logs1:70000", "the port"),
            ("bbq://logs1/path", "follow the port"),
            ("bbq://me@logs1", "no user"),
        ] {
            let error = SinkSpec::parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("write bbq://HOST:PORT"), "{spec}: {error}");
        }
        for (spec, shown) in
            [("bbq://logs1", "logs1"), ("bbq://[::1]:7701", "::1"), ("bbq://127.0.0.1:1", "127.0.0.1")]
        {
            assert!(format!("{:?}", SinkSpec::parse(spec).unwrap()).contains(shown), "{spec}");
        }
    }
}
