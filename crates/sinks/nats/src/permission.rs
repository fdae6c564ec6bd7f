//! Looks what the user may publish, when the server refuses subjects of messages. See [`super::forbidden`].

use std::io;
use std::time::Instant;

use super::forbidden;
use super::link::{Ended, NatsLink};
use super::reply::may_publish;
use super::server::Server;
use super::settings::NatsSettings;
use super::subject::{covers, filter};

/// A connection has ended. Notes the subjects of messages that the server has refused over it.
pub(super) async fn note_refused(link: &NatsLink, server: &mut Server, ended: Ended) -> Ended {
    let NatsSettings { encoding, name, .. } = &*link.target;
    if !encoding.template.has_fields() {
        return ended;
    }
    let of_template = filter(&encoding.template);
    let mut is_new = false;
    for refused in server.refused_subjects().await {
        let is_of_template = covers(&of_template, &refused);
        is_new |= is_of_template && link.shared.forbidden().note(&refused, name, Instant::now());
    }
    match ended {
        Ended::InDoubt(_) | Ended::Failed(_) if is_new => Ended::Forbidden,
        ended => ended,
    }
}

/// Messages with this subject, which is forbidden, are to be set apart, and the server has taken no other since. Looks whether the user may
/// publish to another one, while nothing is on its way.
pub(super) async fn find_other(link: &NatsLink, server: &mut Server, subject: &str) -> Result<(), Ended> {
    let template = &link.target.encoding.template;
    let to_ask = link.shared.forbidden().to_ask(template.fallback(), Instant::now());
    if let Some(other) = to_ask {
        if may_publish(server, other.clone()).await? {
            link.shared.forbidden().taken(None);
            return Ok(());
        }
        link.shared.forbidden().not_taken(&other);
    }
    link.shared.forbidden().forget();
    // What was asked for is no subject of a message.
    drop(server.refused_subjects().await);
    let text = forbidden::held(subject, &filter(template));
    Err(Ended::Failed(io::Error::other(text)))
}
