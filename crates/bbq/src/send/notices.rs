//! What `bbq send` tells of its connections on standard error.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bbq_client::Notice;

use super::lost;

/// The same reason is told again after this time: a server that lets clients in and then takes nothing is tried every second.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Default)]
pub(super) struct Notices {
    /// By server: why it was not there when that was last told, and when. As many as the command names.
    told: Mutex<HashMap<String, (String, Instant)>>,
}

impl Notices {
    pub(super) fn print(&self, notice: &Notice) {
        match notice {
            Notice::Unreachable { server, why } if self.is_new(server, why) => {
                let why = with_option_names(why);
                eprintln!("bbq: {server}: {why}; trying again until a server answers");
            }
            Notice::NewStream { server, why } => {
                eprintln!("bbq: {server}: {why}; messages that are not acknowledged are sent as a new stream")
            }
            Notice::Lost { server, records, why } => {
                eprintln!("bbq: {server}: {}: {why}", lost::shown(*records, "lost"))
            }
            Notice::Connected { server } => tracing::debug!(server, "connected"),
            _ => {}
        }
    }

    fn is_new(&self, server: &str, why: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(server).is_some_and(|(before, at)| before == why && at.elapsed() < AGAIN_AFTER) {
            return false;
        }
        told.insert(server.to_owned(), (why.to_owned(), Instant::now()));
        true
    }
}

/// A text of bbq-client, which names options as its libraries do, with the options of the command line.
pub(super) fn with_option_names(text: &str) -> String {
    const NAMES: [(&str, &str); 4] = [
        ("tls_ca", "--tls-ca"),
        ("tls_cert", "--tls-cert"),
        ("tls_key", "--tls-key"),
        ("tls_server_name", "--tls-server-name"),
    ];
    let word = |word: &str| {
        let name = word.trim_matches(|c| "(),;:".contains(c));
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map_or_else(|| word.to_owned(), |(known, option)| word.replacen(known, option, 1))
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
