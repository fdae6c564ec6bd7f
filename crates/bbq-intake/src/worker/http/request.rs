//! What a request asks for, and how it is served.
//!
//! ```text
//! POST /          the body is one message
//! POST /ndjson    each line of the body is a message; empty lines are skipped
//! POST /v1/logs   OTLP: each log record is a message; the gRPC call does the same
//!      ?ack=      durable: answered when the messages are on disk (200); received: when they are taken (202); none: as received,
//!                 even if there was no room and they were dropped
//! ```
//!
//! The headers are described in `headers`. Other programs' senders have paths of their own (`senders`).

use bbq_rules::Rules;
use bbq_stored::Identity;
use bbq_wire::SourceKind;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::authorization::authorized;
use super::body::HeldBody;
use super::grpc;
use super::headers;
use super::messages::{Messages, Split};
use super::open::Activity;
use super::origin;
use super::refused::Refused;
use super::response::{ResponseFormat, Taken};
use super::response_body::ResponseBody;
use super::route::{LogsEncoding, Route, is_grpc};
use super::source::{Ack, Source};

impl Source {
    /// Responds to a request.
    pub(super) async fn respond(
        &self,
        request: Request<Incoming>,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let (version, headers) = (request.version(), request.headers());
        let route = origin::check(version, request.uri(), headers, self.peer).and_then(|()| {
            let how = (version, request.method());
            Route::of(self.listener().spec.protocol, how, request.uri().path(), headers)
        });
        let form = match route {
            // On the heap: most requests do not need the memory.
            Ok(Route::Sender) => return Box::pin(self.respond_to_sender(request, activity)).await,
            Ok(Route::Logs(encoding)) => ResponseFormat::Logs(encoding),
            _ if is_grpc(version, headers) => ResponseFormat::Grpc,
            Ok(Route::Grpc) => ResponseFormat::Grpc,
            Ok(Route::Message | Route::Lines) | Err(_) => ResponseFormat::Plain,
        };
        let taken = match route {
            Ok(route) => self.take(route, request, activity).await,
            Err(refused) => Err(refused),
        };
        match taken {
            Ok(taken) => form.taken(taken, self.message_bytes_max()),
            Err(refused) => {
                self.report(&refused);
                if refused.status() == StatusCode::SERVICE_UNAVAILABLE {
                    self.overhead.add_unread_body();
                }
                form.refused(&refused)
            }
        }
    }

    /// Takes the messages of a request.
    async fn take(
        &self,
        route: Route,
        request: Request<Incoming>,
        activity: &Activity,
    ) -> Result<Taken, Refused> {
        let admission = authorized(self.listener(), request.headers())?;
        let identity = Identity::of(admission.as_ref().map(|shown| shown.identity()), self.peer);
        activity.set_identity(&identity);
        let ack = ack_of(request.uri().query().unwrap_or_default())?;
        let coding = headers::coding(request.headers())?;
        let numbers = headers::numbers(request.headers())?;
        match (numbers, route) {
            (Some(_), Route::Logs(_) | Route::Grpc) => return Err(Refused::NumberedLogs),
            (Some(_), _) if self.listener().spec.filter.as_ref().is_some_and(Rules::acts) => {
                return Err(Refused::NumberedFiltered);
            }
            (Some(_), _) if ack == Ack::None => return Err(Refused::NumbersWithoutAck),
            _ => {}
        }
        self.check_rate()?;
        let mut deadline = None;
        if ack != Ack::None {
            self.wait_room(&mut deadline).await?;
        }
        let bytes_max = match route {
            Route::Message => self.message_bytes_max(),
            Route::Lines | Route::Sender => BATCH_BODY_BYTES_MAX as usize,
            Route::Logs(encoding) => encoding.bytes_max(),
            Route::Grpc => LogsEncoding::Protobuf.bytes_max() + grpc::PREFIX_BYTES,
        };
        let message_coding = grpc::coding(request.headers());
        let body = HeldBody::read(self, identity, request.into_body(), (coding, bytes_max)).await?;
        let (kind, messages, rejected) = match route {
            Route::Message if body.bytes.is_empty() => return Err(Refused::Empty),
            Route::Message => (SourceKind::Http, Messages { body, split: Split::Whole }, 0),
            // Senders are served elsewhere.
            Route::Lines | Route::Sender => (SourceKind::Http, Messages { body, split: Split::Lines }, 0),
            Route::Logs(encoding) => {
                let logs = self.logs(encoding, body)?;
                (SourceKind::Otlp, logs.messages, logs.rejected)
            }
            Route::Grpc => {
                let encoding = LogsEncoding::Protobuf;
                let message = grpc::message(body, message_coding?, encoding.bytes_max()).await?;
                let logs = self.logs(encoding, message)?;
                (SourceKind::Otlp, logs.messages, logs.rejected)
            }
        };
        let (count, bytes) =
            messages.iter().fold((0, 0), |(count, bytes), message| (count + 1, bytes + message.len() as u64));
        self.listener().add_taken(self.peer, count, bytes, messages.body.received as u64);
        let stored = match numbers {
            None => self.store(kind, ack, messages, &mut deadline).await?,
            Some(numbers) => self.store_numbered(kind, ack, numbers, admission.as_deref(), messages).await?,
        };
        Ok(Taken { ack, stored, rejected })
    }
}

fn ack_of(query: &str) -> Result<Ack, Refused> {
    match query {
        "" | "ack=durable" => Ok(Ack::Durable),
        "ack=received" => Ok(Ack::Received),
        "ack=none" => Ok(Ack::None),
        other => Err(Refused::Query(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_query_names_what_is_allowed() {
        assert_eq!(ack_of("").unwrap(), Ack::Durable);
        assert_eq!(ack_of("ack=received").unwrap(), Ack::Received);
        let error = ack_of("ack=durably").unwrap_err();
        assert_eq!(error.status(), StatusCode::BAD_REQUEST);
        assert!(error.to_string().contains("ack=durable"), "{error}");
    }
}
