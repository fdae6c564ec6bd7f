//! What a server responds to what is published.

use std::io;
use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode};
use futures_util::StreamExt as _;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::batch::expect;
use super::link::Ended;
use super::server::{Server, api_error, why_ended};

/// `err_code`s of nats-server (errors.json).
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];
const BATCH_INCOMPLETE: u64 = 10176;
/// The number of the reply to a message that is published alone.
const ALONE: u64 = u64::MAX;

/// Publishes a message behind the last one of its subject, while nothing else is on its way. Returns its place in the stream.
pub(super) async fn publish_alone(
    server: &mut Server,
    subject: &str,
    last: u64,
    payload: String,
) -> Result<u64, Ended> {
    let mut headers = HeaderMap::new();
    expect(&mut headers, last);
    let Server { client, replies, inbox, ended, patience, .. } = server;
    let reply = format!("{inbox}.{ALONE}");
    let published = client.publish_with_reply_and_headers(subject.to_owned(), reply, headers, payload.into());
    in_time(*patience, published).await?;
    let reply = tokio::select! {
        biased;
        Some(reply) = replies.next() => reply,
        // A server that refuses the subject says so, and sends no reply.
        why = why_ended(ended) => return Err(Ended::InDoubt(why)),
        () = sleep(*patience) => return Err(late(*patience)),
    };
    sequence_of(&reply)
}

/// Whether the user may publish to a subject, while nothing else is on its way. The stream takes nothing: there is no message at the place
/// that is named.
pub(super) async fn may_publish(server: &mut Server, subject: String) -> Result<bool, Ended> {
    let mut headers = HeaderMap::new();
    expect(&mut headers, i64::MAX.unsigned_abs());
    let Server { client, replies, inbox, ended, patience, .. } = server;
    let reply = format!("{inbox}.{ALONE}");
    in_time(*patience, client.publish_with_reply_and_headers(subject, reply, headers, Bytes::new())).await?;
    let reply = async {
        loop {
            tokio::select! {
                biased;
                // Others may be about batches that were sent before.
                Some(reply) = replies.next() => if number_of(&reply) == Some(ALONE) { return Some(reply) },
                _refused = why_ended(ended) => return None,
            }
        }
    };
    match timeout(*patience, reply).await {
        Ok(Some(reply)) if is_displaced(&reply) => Ok(true),
        Ok(Some(reply)) => Err(refusal(&reply)),
        Ok(None) => Ok(false),
        Err(_) => Err(late(*patience)),
    }
}

/// Waits for room among what is to be sent, but not without end.
pub(super) async fn in_time<E: std::error::Error + Send + Sync + 'static>(
    patience: Duration,
    publish: impl Future<Output = Result<(), E>>,
) -> Result<(), Ended> {
    let published = timeout(patience, publish).await.map_err(|_| late(patience))?;
    published.map_err(|error| Ended::InDoubt(io::Error::other(error)))
}

pub(super) fn late(patience: Duration) -> Ended {
    let text = format!("the server did not take what was published within {} s", patience.as_secs());
    Ended::InDoubt(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// The number at the end of a reply's subject.
pub(super) fn number_of(reply: &Message) -> Option<u64> {
    reply.subject.rsplit('.').next().and_then(|number| number.parse().ok())
}

/// The place in the stream of what was acknowledged.
pub(super) fn sequence_of(reply: &Message) -> Result<u64, Ended> {
    let response: Option<Value> = serde_json::from_slice(&reply.payload).ok();
    let sequence =
        response.filter(|response| api_error(response).is_none()).and_then(|value| value["seq"].as_u64());
    sequence.filter(|sequence| *sequence > 0).ok_or_else(|| refusal(reply))
}

/// Whether the server refuses a batch because a progress or a mark is not at the place that it names.
pub(super) fn is_displaced(reply: &Message) -> bool {
    let response: Option<Value> = serde_json::from_slice(&reply.payload).ok();
    response.as_ref().and_then(api_error).is_some_and(|(code, _)| WRONG_LAST_SEQUENCE.contains(&code))
}

/// What a reply says that is no acknowledgement.
pub(super) fn refusal(reply: &Message) -> Ended {
    if reply.status == Some(StatusCode::NO_RESPONDERS) {
        return Ended::Failed(io::Error::other(
            "no stream takes the messages now: it has no leader, or was deleted",
        ));
    }
    let response: Option<Value> = serde_json::from_slice(&reply.payload).ok();
    match response.as_ref().and_then(api_error) {
        Some((code, text)) => {
            let error = io::Error::other(format!("the server refuses: {text}"));
            let is_in_doubt = WRONG_LAST_SEQUENCE.contains(&code) || code == BATCH_INCOMPLETE;
            if is_in_doubt { Ended::InDoubt(error) } else { Ended::Failed(error) }
        }
        None => Ended::InDoubt(io::Error::other("the server acknowledges in a way that bbq does not know")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_server;

    #[tokio::test]
    async fn a_permission_that_is_missing_for_the_progress_is_told() {
        let refusal = r#"Permissions Violation for Publish to "bbq.progress.1""#;
        let (_link, mut server) = fake_server::connect(refusal).await;
        server.patience = Duration::from_secs(5);
        let ended = publish_alone(&mut server, "bbq.progress.1", 0, "w1".to_owned()).await;
        let Err(Ended::InDoubt(error)) = ended else { panic!("the server took it") };
        let error = error.to_string();
        assert!(error.contains(refusal) && error.contains("to that of the progress"), "{error}");
    }
}
