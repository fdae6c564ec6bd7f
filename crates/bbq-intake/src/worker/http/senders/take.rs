//! The messages of a sender: read, stored, answered.

use bbq_senders::elasticsearch::{Bulk, BulkDefaults, BulkError, bulk};
use bbq_senders::loki::{Encoding, Push, PushError};
use bbq_senders::splunk::Defaults;
use bbq_senders::{Answer, Limits, Request as Asked, Trouble, elasticsearch, gelf, loki, parameter, splunk};
use bbq_spec::unix_ns;
use bbq_stored::{DropReason, Identity};
use bbq_wire::batch::Events;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;
use bbq_wire::{SourceKind, StreamId};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use tokio::time::Instant;

use super::answer::{Answered, Stop};
use super::serve::{ACKS, channel};
use crate::access::Admission;
use crate::worker::http::body::HeldBody;
use crate::worker::http::coding::Coding;
use crate::worker::http::headers;
use crate::worker::http::refused::Refused;
use crate::worker::http::source::Source;
use crate::worker::repeat;

/// The header in which senders of Loki name a tenant.
const TENANT: &str = "x-scope-orgid";
/// The longest body, as it comes and decoded, with all its messages.
const BODY_BYTES_MAX: usize = BATCH_BODY_BYTES_MAX as usize;

/// What the head of a request says of its messages.
struct Head {
    query: String,
    content_type: String,
    tenant: Option<String>,
    has_channel: bool,
}

/// The messages of a request.
struct Read {
    events: Events,
    /// The stream of the request, if an equal one is a repeat.
    once: Option<StreamId>,
    rest: Rest,
}

/// What the answer needs beside the messages.
enum Rest {
    Loki { too_long: u64 },
    Bulk(Box<Bulk>),
    Splunk { has_channel: bool },
    Gelf,
}

impl Source {
    /// Takes the messages of a request.
    pub(super) async fn take_of_sender(
        &self,
        asked: &Asked,
        request: Request<Incoming>,
        (admission, identity): (Option<&Admission>, Identity),
    ) -> Result<Answered, Stop> {
        let begun = Instant::now();
        let coding = coding(asked, request.headers())?;
        let head = Head::of(asked, &request)?;
        self.check_rate()?;
        let mut deadline = None;
        self.wait_room(&mut deadline).await?;
        let limits = (coding, BODY_BYTES_MAX);
        let mut body = HeldBody::read(self, identity, request.into_body(), limits).await?;
        if let Some(hidden) = hidden_coding(asked, coding, &body.bytes) {
            body = body.decoded(0, hidden, BODY_BYTES_MAX).await?;
        }
        let Read { events, once, rest } = self.read_of_sender(asked, &head, admission, &mut body)?;
        let (count, bytes) =
            (events.len() as u64, events.iter().map(|event| event.message.len() as u64).sum());
        self.listener().add_taken(self.peer, count, bytes, body.received as u64);
        body.replace(events.memory() + rest.memory())?;
        let held = (&mut body, rest.memory());
        match once {
            _ if events.is_empty() => {}
            Some(stream) => self.store_once(SourceKind::Http, (stream, events), admission, held).await?,
            None => self.store_events(SourceKind::Http, events, held, &mut deadline).await?,
        }
        let answer = self.taken_of_sender(&rest, begun);
        Ok(Answered { answer, held: Some(body) })
    }

    fn read_of_sender(
        &self,
        asked: &Asked,
        head: &Head,
        admission: Option<&Admission>,
        body: &mut HeldBody,
    ) -> Result<Read, Stop> {
        let limits = Limits::of_a_batch(self.message_bytes_max());
        // What is read is as large as the body, and its fields are at most as large again or the request is too large.
        body.hold(body.bytes.len())?;
        match asked {
            Asked::Loki(_) => self.read_loki(head, admission, body, limits),
            Asked::Elasticsearch(asked) => self.read_bulk(asked, head, admission, body, limits),
            Asked::Splunk(asked) => {
                let defaults = Defaults::of_query(&head.query);
                let read = match asked {
                    splunk::Asked::Raw => splunk::raw(&body.bytes, &defaults, limits),
                    _ => splunk::events(&body.bytes, &defaults, limits),
                };
                let events = read.map_err(|why| Stop::Rejected(why.answer(), why.to_string()))?;
                Ok(Read { events, once: None, rest: Rest::Splunk { has_channel: head.has_channel } })
            }
            Asked::Gelf => {
                let events = gelf::messages(&body.bytes, limits)
                    .map_err(|why| Stop::Rejected(why.answer(), why.to_string()))?;
                Ok(Read { events, once: None, rest: Rest::Gelf })
            }
            // It is not held, and served elsewhere.
            Asked::Journal => Err(Refused::Path.into()),
        }
    }

    fn read_loki(
        &self,
        head: &Head,
        admission: Option<&Admission>,
        body: &mut HeldBody,
        limits: Limits,
    ) -> Result<Read, Stop> {
        let wrong = |why: PushError| {
            let trouble = match why {
                PushError::Malformed(_) => Trouble::Malformed,
                PushError::TooMuch(_) => Trouble::TooLarge,
            };
            Stop::Rejected(loki::refused(trouble, &why.to_string()), why.to_string())
        };
        let tenant = head.tenant.as_deref();
        let encoding = Encoding::of(&head.content_type);
        let request: [&[u8]; 3] = [b"loki", tenant.unwrap_or_default().as_bytes(), &body.bytes];
        let once = self.once(admission, &request);
        if encoding == Encoding::Protobuf {
            let bytes = loki::decompressed_bytes(&body.bytes).map_err(wrong)?;
            if bytes > BODY_BYTES_MAX {
                return Err(Refused::BodyTooLarge { bytes_max: BODY_BYTES_MAX }.into());
            }
            body.hold(bytes)?;
            let text = loki::decompressed(&body.bytes).map_err(wrong)?;
            body.set(text)?;
            body.hold(bytes)?;
        }
        let Push { events, too_long } = loki::push(encoding, &body.bytes, tenant, limits).map_err(wrong)?;
        Ok(Read { events, once, rest: Rest::Loki { too_long } })
    }

    fn read_bulk(
        &self,
        asked: &elasticsearch::Asked,
        head: &Head,
        admission: Option<&Admission>,
        body: &HeldBody,
        limits: Limits,
    ) -> Result<Read, Stop> {
        let index = match asked {
            elasticsearch::Asked::Bulk { index } => index.as_deref(),
            elasticsearch::Asked::Setup | elasticsearch::Asked::Search => None,
        };
        let pipeline = parameter(&head.query, "pipeline");
        let defaults = BulkDefaults { index, pipeline: pipeline.as_deref() };
        let mut read = bulk(&body.bytes, defaults, limits).map_err(|why| {
            let trouble = match why {
                BulkError::Action { .. } | BulkError::Empty => Trouble::Malformed,
                BulkError::Items | BulkError::TooMuch(_) => Trouble::TooLarge,
            };
            Stop::Rejected(elasticsearch::refused(trouble, &why.to_string()), why.to_string())
        })?;
        let pipeline = pipeline.as_deref().unwrap_or_default();
        let index = index.unwrap_or_default().as_bytes();
        let request: [&[u8]; 4] = [b"bulk", index, pipeline.as_bytes(), &body.bytes];
        let once = read.creates_by_id.then(|| self.once(admission, &request)).flatten();
        let events = std::mem::take(&mut read.events);
        Ok(Read { events, once, rest: Rest::Bulk(Box::new(read)) })
    }

    /// The stream of a request that is a repeat if it comes again; `None` if it has none.
    fn once(&self, admission: Option<&Admission>, request: &[&[u8]]) -> Option<StreamId> {
        let token = admission.map_or("", |admission| &**admission.identity());
        repeat::stream(&self.listener().spec, token, request)
    }

    /// The answer to a request whose messages are stored. What was left out of it is counted and reported.
    fn taken_of_sender(&self, rest: &Rest, begun: Instant) -> Answer {
        let ledger = &self.listener().ledger;
        match rest {
            Rest::Loki { too_long } => {
                if *too_long > 0 {
                    ledger.add_dropped(DropReason::Oversize, *too_long);
                    let why =
                        format!("{too_long} lines of a push request are too long, the others are stored");
                    self.listener().report_request(self.peer, why);
                }
                loki::taken(*too_long, self.message_bytes_max())
            }
            Rest::Bulk(bulk) => {
                let (too_long, wrong) = bulk.refused();
                if too_long + wrong > 0 {
                    ledger.add_dropped(DropReason::Oversize, too_long);
                    ledger.add_dropped(DropReason::Malformed, wrong);
                    let why =
                        format!("of the items of a _bulk request, {too_long} are too long and {wrong} wrong");
                    self.listener().report_request(self.peer, why);
                }
                bulk.taken(begun.elapsed().as_millis() as u64)
            }
            Rest::Splunk { has_channel } => splunk::taken(has_channel.then(|| ACKS.give(unix_ns() / 1000))),
            Rest::Gelf => gelf::taken(),
        }
    }
}

impl Rest {
    fn memory(&self) -> usize {
        match self {
            Rest::Bulk(bulk) => bulk.memory(),
            Rest::Loki { .. } | Rest::Splunk { .. } | Rest::Gelf => 0,
        }
    }
}

impl Head {
    fn of(asked: &Asked, request: &Request<Incoming>) -> Result<Head, Stop> {
        let text = |name: &str| {
            request.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let has_channel = matches!(asked, Asked::Splunk(_)) && channel(request, false)?;
        Ok(Head {
            query: request.uri().query().unwrap_or_default().to_owned(),
            content_type: text(CONTENT_TYPE.as_str()).unwrap_or_default(),
            tenant: text(TENANT),
            has_channel,
        })
    }
}

/// The coding of a body. Some senders of Loki name the snappy in it, which is a part of their protocol, and some of GELF name two codings.
fn coding(asked: &Asked, headers: &HeaderMap) -> Result<Coding, Refused> {
    let is = |known: &str| headers.get(CONTENT_ENCODING).is_some_and(|value| value == known);
    match asked {
        Asked::Loki(_) if is("snappy") => Ok(Coding::Identity),
        Asked::Gelf if is("gzip,deflate") => Ok(Coding::Identity),
        _ => headers::coding(headers),
    }
}

/// The coding of a message of GELF whose head says nothing of it, or not which of two.
fn hidden_coding(asked: &Asked, coding: Coding, body: &[u8]) -> Option<Coding> {
    if *asked != Asked::Gelf || coding != Coding::Identity {
        return None;
    }
    gelf::Compression::of(body).map(|compression| match compression {
        gelf::Compression::Gzip => Coding::Gzip,
        gelf::Compression::Zlib => Coding::Deflate,
    })
}
