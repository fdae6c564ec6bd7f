//! What a request asks for, and the answer to it.
//!
//! ```text
//! POST /          the body is one message
//! POST /ndjson    each line of the body is a message; empty lines are none
//!      ?ack=      durable: answered when the messages are on disk (200); received: when they are taken (202); none: as received,
//!                 also when there was no room and they were dropped
//! ```
//!
//! Invariant: all messages of a request are taken, or none.

use std::rc::Rc;
use std::time::Duration;

use bbq_wire::Peer;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::body::HeldBody;
use super::refused::Refused;
use crate::config::OnFull;
use crate::stored::ledger::DropReason;
use crate::worker::intake::Intake;
use crate::worker::text::batcher::NotTaken;
use crate::worker::ticket::Ticket;

/// How long a request that has come waits for the lane to move: longer than a sync takes, shorter than clients wait.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ack {
    Durable,
    Received,
    None,
}

/// Whose requests they are.
pub(super) struct Source {
    pub(super) intake: Rc<Intake>,
    pub(super) listener_index: usize,
    pub(super) peer: Peer,
}

impl Source {
    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (status, extra, text) = match self.take(request).await {
            Ok((Ack::Durable, messages)) => (StatusCode::OK, None, taken("durable", messages)),
            Ok((Ack::Received, messages)) => (StatusCode::ACCEPTED, None, taken("received", messages)),
            Ok((Ack::None, messages)) => (StatusCode::ACCEPTED, None, taken("none", messages)),
            Err(refused) => {
                self.report(&refused);
                let text = serde_json::json!({ "error": refused.to_string() });
                (refused.status(), refused.header(), text)
            }
        };
        let mut response = Response::new(Full::from(format!("{text}\n")));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().extend(extra);
        response
    }

    fn report(&self, refused: &Refused) {
        let listener = &self.intake.listeners[self.listener_index];
        listener.ledger.add_refused(1);
        if let Some(repeats) = listener.peer_problems.report() {
            tracing::warn!(listener = listener.spec.source, peer = ?self.peer, reason = %refused, repeats, "request refused");
        }
    }

    /// Takes the messages of a request. Returns what their sender waited for, and how many they are.
    async fn take(&self, request: Request<Incoming>) -> Result<(Ack, usize), Refused> {
        let (intake, spec) = (&self.intake, &self.intake.listeners[self.listener_index].spec);
        let message_bytes_max = spec.rules.message_bytes_max as usize;
        let (is_lines, bytes_max) = match request.uri().path() {
            "/" => (false, message_bytes_max),
            "/ndjson" => (true, BATCH_BODY_BYTES_MAX as usize),
            _ => return Err(Refused::Path),
        };
        if request.method() != Method::POST {
            return Err(Refused::Method);
        }
        let ack = ack_of(request.uri().query().unwrap_or_default())?;
        if request.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Refused::Encoding);
        }
        // Before the body is read: a client that expects 100 (Continue) does not even send it.
        let is_full = !intake.has_room(self.listener_index)
            || (intake.lane.is_waiting_for_space() && spec.on_full == OnFull::Block);
        if ack != Ack::None && is_full {
            return Err(if intake.lane.failure().is_some() { Refused::Failed } else { Refused::Full });
        }
        let body = HeldBody::read(intake, request.into_body(), bytes_max).await?;
        let lines = is_lines.then(|| lines(&body.bytes));
        let whole = (!is_lines).then_some(&*body.bytes);
        let messages = lines.into_iter().flatten().chain(whole);
        let count = messages.clone().count();
        let taken = loop {
            let taken = match ack {
                Ack::Durable => intake.append(self.listener_index, messages.clone(), self.peer).map(Some),
                Ack::Received | Ack::None => {
                    intake.append_unawaited(self.listener_index, messages.clone(), self.peer).map(|()| None)
                }
            };
            // The disk is busy, mostly: a client that sent its body does not send it again for that.
            let is_full = matches!(taken, Err(NotTaken::Full)) && ack != Ack::None;
            if !is_full || !self.has_room_in_time().await {
                break taken;
            }
        };
        // The memory is free while the request waits for the disk.
        drop(messages);
        drop(body);
        match taken {
            Ok(Some(ticket)) => self.durable(ticket).await.map(|()| (ack, count)),
            Ok(None) => Ok((ack, count)),
            Err(NotTaken::TooLarge) => Err(Refused::TooLarge { bytes_max: message_bytes_max }),
            Err(NotTaken::Dropped) if ack == Ack::None => Ok((ack, count)),
            Err(why @ (NotTaken::Full | NotTaken::Failed)) if ack == Ack::None => {
                let reason = if why == NotTaken::Full { DropReason::Full } else { DropReason::Unwritten };
                intake.listeners[self.listener_index].ledger.add_dropped(reason, count as u64);
                Ok((ack, count))
            }
            Err(NotTaken::Full) => Err(Refused::Full),
            Err(NotTaken::Dropped) => Err(Refused::Dropped),
            Err(NotTaken::Failed) => Err(Refused::Failed),
        }
    }

    /// Waits until the messages are on disk. They may wait for room there for long.
    async fn durable(&self, ticket: Ticket) -> Result<(), Refused> {
        let seconds = self.intake.limits.batch_timeout_seconds;
        let durable = tokio::time::timeout(Duration::from_secs(seconds.into()), ticket.durable());
        durable.await.map_err(|_| Refused::Undecided { seconds })?.map_err(|_| Refused::Failed)
    }

    /// Waits for a change in the lane; `false` when that takes too long, or the server stops.
    async fn has_room_in_time(&self) -> bool {
        tokio::select! {
            biased;
            () = self.intake.stopping.wait() => false,
            in_time = tokio::time::timeout(ROOM_PATIENCE, self.intake.room.notified()) => in_time.is_ok(),
        }
    }
}

fn taken(ack: &str, messages: usize) -> serde_json::Value {
    serde_json::json!({ "taken": messages, "ack": ack })
}

fn ack_of(query: &str) -> Result<Ack, Refused> {
    match query {
        "" | "ack=durable" => Ok(Ack::Durable),
        "ack=received" => Ok(Ack::Received),
        "ack=none" => Ok(Ack::None),
        other => Err(Refused::Query(other.to_owned())),
    }
}

/// The lines, without what ends them.
fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let line = |line: &'_ [u8]| line.strip_suffix(b"\r").map_or(line.len(), <[u8]>::len);
    body.split(|byte| *byte == b'\n').map(move |text| &text[..line(text)]).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_by_line_feeds_and_empty_ones_are_none() {
        let found = |body: &'static str| lines(body.as_bytes()).collect::<Vec<_>>();
        assert_eq!(found("a\nb\r\n\n\r\nc"), [b"a", b"b", b"c"]);
        assert!(found("").is_empty() && found("\n\n").is_empty());
    }

    #[test]
    fn an_unknown_query_names_what_is_allowed() {
        assert_eq!(ack_of("").unwrap(), Ack::Durable);
        assert_eq!(ack_of("ack=received").unwrap(), Ack::Received);
        let error = ack_of("ack=durably").unwrap_err();
        assert_eq!(error.status(), StatusCode::BAD_REQUEST);
        assert!(error.to_string().contains("ack=durable"), "{error}");
    }
}
